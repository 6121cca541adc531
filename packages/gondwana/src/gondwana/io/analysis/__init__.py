"""Analysis of datasets: planes, pictures, histograms."""
