-- EmbeddingBag.lua - sums, means or maxima of bags of vectors, looked up by position.

local torch = require "tlua"
local args = require "tlua.args"
local class = require "tlua.class"
local F = require "tlua.nn.functional"
local init = require "tlua.nn.initializers"
local Module = require "tlua.nn.Module"
local Parameter = require "tlua.nn.Parameter"

local signature = args.signature [[nn.EmbeddingBag(num_embeddings: count, embedding_dim: count,
   mode: string = 'mean', include_last_offset: boolean = false, padding_idx: integer?,
   device: string?, dtype: string?)]]

local modes = {sum = true, mean = true, max = true}

---@class nn.EmbeddingBag: nn.Module
---@field weight Tensor  (num_embeddings, embedding_dim)
---@overload fun(num_embeddings: integer, embedding_dim: integer, options?): nn.EmbeddingBag
local EmbeddingBag, parent = class.class("nn.EmbeddingBag", Module)

---@param num_embeddings integer
---@param embedding_dim integer
---@param options? {mode: "sum"|"mean"|"max", include_last_offset: boolean, padding_idx: integer}
function EmbeddingBag:__init(...)
   parent.__init(self)
   local a = signature(...)
   if not modes[a.mode] then
      args.refuse("nn.EmbeddingBag", "mode", "sum, mean or max", a.mode)
   end
   self.num_embeddings, self.embedding_dim = a.num_embeddings, a.embedding_dim
   self.mode, self.include_last_offset = a.mode, a.include_last_offset
   self.padding_idx = a.padding_idx
   self.weight = Parameter(torch.empty(a.num_embeddings, a.embedding_dim,
      {device = a.device, dtype = a.dtype}))
   self:reset_parameters()
end

--- Sets normally distributed vectors.
function EmbeddingBag:reset_parameters()
   init.normal_(self.weight)
   if not self.padding_idx then return end
   local _ <close> = torch.no_grad()
   self.weight:select(1, self.padding_idx):zero_()
end

--- Bags are the rows of `input`, or the pieces of a list that begin at `offsets` (from 1).
---@param input Tensor  (B, N), or (N) with offsets
---@param offsets? Tensor  (B)
---@param per_sample_weights? Tensor  as input; for sums
---@return Tensor  (B, embedding_dim)
function EmbeddingBag:forward(input, offsets, per_sample_weights)
   return F.embedding_bag(input, self.weight, {
      offsets = offsets, mode = self.mode, per_sample_weights = per_sample_weights,
      include_last_offset = self.include_last_offset, padding_idx = self.padding_idx,
   })
end

function EmbeddingBag:extra_repr()
   return ("%d, %d, mode=%s"):format(self.num_embeddings, self.embedding_dim, self.mode)
end

return EmbeddingBag
