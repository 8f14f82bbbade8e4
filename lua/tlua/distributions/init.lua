-- init.lua - torch.distributions: probability distributions with samples, densities, moments and
-- divergences. A distribution is loaded when it is first used.

local lazy = require "tlua.lazy"

return lazy.load({}, lazy.modules("tlua.distributions", {
   Distribution = "Distribution ExponentialFamily",
   normal = "Normal LogNormal HalfNormal LogisticNormal",
   gamma = "Gamma Chi2 Exponential InverseGamma FisherSnedecor StudentT Weibull Pareto",
   beta = "Beta Dirichlet Kumaraswamy LKJCholesky",
   continuous = [[Cauchy HalfCauchy Laplace Uniform Gumbel GeneralizedPareto VonMises
      ContinuousBernoulli]],
   discrete = "Bernoulli Binomial Geometric NegativeBinomial Poisson",
   categorical = "Categorical OneHotCategorical OneHotCategoricalStraightThrough Multinomial",
   relaxed = [[RelaxedBernoulli LogitRelaxedBernoulli RelaxedOneHotCategorical
      ExpRelaxedCategorical]],
   multivariate = "MultivariateNormal LowRankMultivariateNormal Wishart",
   transformed = "TransformedDistribution Independent",
   mixture = "MixtureSameFamily",
   transforms = [[transforms Transform AbsTransform AffineTransform CatTransform ComposeTransform
      CorrCholeskyTransform CumulativeDistributionTransform ExpTransform IndependentTransform
      LowerCholeskyTransform PositiveDefiniteTransform PowerTransform ReshapeTransform
      SigmoidTransform SoftplusTransform TanhTransform SoftmaxTransform StackTransform
      StickBreakingTransform identity_transform]],
   constraints = "constraints",
   constraint_registry = "biject_to transform_to constraint_registry",
   kl = "kl_divergence register_kl",
}))
