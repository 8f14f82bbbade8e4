-- init.lua - torch.vision.ops: operators and layers of vision models.

local lazy = require "tlua.lazy"

return lazy.load({}, lazy.modules("tlua.vision.ops", {
   layers = [[Conv2dNormActivation Conv3dNormActivation SqueezeExcitation MLP Permute
      FrozenBatchNorm2d stochastic_depth StochasticDepth]],
}))
