"""Analysis of datasets: their contents, planes, pictures, histograms."""
