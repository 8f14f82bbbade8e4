-- Distance.lua - the similarity or the distance of two tensors along a dimension.

local F = require "tlua.nn.functional"
local define = require "tlua.nn.modules.layers".define

local M = {}

M.CosineSimilarity = define("CosineSimilarity", "dim: dim = 2, eps: number = 1e-8",
   function(self, first, second)
      return F.cosine_similarity(first, second, self.dim, self.eps)
   end)

M.PairwiseDistance = define("PairwiseDistance",
   "p: number = 2, eps: number = 1e-6, keepdim: boolean = false",
   function(self, first, second)
      return F.pairwise_distance(first, second, self.p, self.eps, self.keepdim)
   end)

return M
