"""What was found about forecasts: curves, the assessment of one forecast, and the words for it."""
