"""Analysis of datasets: what they have, planes, pictures, histograms."""
