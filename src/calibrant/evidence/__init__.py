"""The evidence about forecasts: curves, the assessment of one forecast, and its words."""
