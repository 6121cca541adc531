"""Looking at datasets: slices, pictures, histograms."""
