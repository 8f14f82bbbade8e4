-- Distance.lua - the similarity or the distance of two tensors along a dimension.

local F = require "tlua.nn.functional"
local define = require "tlua.nn.modules.layers".define

local M = {}

--- Computes the cosine of the angle between two tensors along a dimension. A norm below eps is
--- replaced by eps.
---
---     local layer = torch.nn.CosineSimilarity()
---     print(layer(torch.tensor {{1.0, 0.0}}, torch.tensor {{1.0, 1.0}}))
---     --> tensor([0.7071])
M.CosineSimilarity = define("CosineSimilarity", "dim: dim = 2, eps: number = 1e-8",
   function(self, first, second)
      return F.cosine_similarity(first, second, self.dim, self.eps)
   end)

--- Computes the p-norm of the difference of two tensors along the last dimension, after adding eps
--- to each element of the difference.
---
---     local layer = torch.nn.PairwiseDistance()
---     local d = layer(torch.tensor {{0.0, 0.0}}, torch.tensor {{3.0, 4.0}})
---     print(d:round {decimals = 3})
---     --> tensor([5.])
M.PairwiseDistance = define("PairwiseDistance",
   "p: number = 2, eps: number = 1e-6, keepdim: boolean = false",
   function(self, first, second)
      return F.pairwise_distance(first, second, self.p, self.eps, self.keepdim)
   end)

return M
