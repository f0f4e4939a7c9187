"""Mathematics without statistics: pooling, Newton's method, mixtures, the beta distribution, the simplex."""
