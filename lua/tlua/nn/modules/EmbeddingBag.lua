-- EmbeddingBag.lua - looks up vectors by position, and returns the sum, the mean or the maximum of
-- each bag of vectors.

local torch = require "tlua"
local args = require "tlua.args"
local class = require "tlua.class"
local F = require "tlua.nn.functional"
local init = require "tlua.nn.initializers"
local Module = require "tlua.nn.modules.Module"
local Parameter = require "tlua.nn.Parameter"

local signature = args.signature [[nn.EmbeddingBag(num_embeddings: count, embedding_dim: count,
   max_norm: number?, norm_type: number = 2, scale_grad_by_freq: boolean = false,
   mode: string = 'mean', sparse: boolean = false, include_last_offset: boolean = false,
   padding_idx: integer?, device: device?, dtype: string?)]]

local take_call = args.signature [[nn.EmbeddingBag.forward(input: tensor, offsets: tensor?,
   per_sample_weights: tensor?)]]

local modes = {sum = true, mean = true, max = true}

--- Looks up vectors by positions from 1, and returns the sum, the mean (the default) or the maximum
--- of each bag of vectors.
---
---     local layer = torch.nn.EmbeddingBag(10, 3, {mode = "sum"})
---     local bags = torch.tensor {{1, 2}, {4, 10}} -- a bag of two words in a row
---     print(table.unpack(layer(bags).shape))
---     --> 2	3
---@class nn.EmbeddingBag: nn.Module
---@field weight Tensor  (num_embeddings, embedding_dim)
---@overload fun(num_embeddings: integer, embedding_dim: integer, options?): nn.EmbeddingBag
local EmbeddingBag, parent = class.class("nn.EmbeddingBag", Module)

--- Makes the layer.
---@param num_embeddings integer
---@param embedding_dim integer
---@param options? table  `mode` is sum, mean or max; with `max_norm`, rows that are looked up are
---   first scaled down to that norm, measured by `norm_type` (2 by default); `scale_grad_by_freq`
---   divides gradients by how often a row is used; with `sparse` the weight's gradient is sparse;
---   with `include_last_offset` the last offset is the end of the last bag; the row at
---   `padding_idx` is left out of the results; `device` and `dtype` are those of the weight
function EmbeddingBag:__init(...)
   parent.__init(self)
   local a = signature(...)
   if not modes[a.mode] then
      args.refuse("nn.EmbeddingBag", "mode", "sum, mean or max", a.mode)
   end
   self.num_embeddings, self.embedding_dim = a.num_embeddings, a.embedding_dim
   for _, option in ipairs {"mode", "include_last_offset", "padding_idx", "max_norm", "norm_type",
      "scale_grad_by_freq", "sparse"} do
      self[option] = a[option]
   end
   self.weight = Parameter(torch.empty(a.num_embeddings, a.embedding_dim,
      {device = a.device, dtype = a.dtype}))
   self:reset_parameters()
end

--- Fills the table with normally distributed values.
function EmbeddingBag:reset_parameters()
   init.normal_(self.weight)
   if not self.padding_idx then return end
   local _ <close> = torch.no_grad()
   self.weight:select(1, self.padding_idx):zero_()
end

--- Returns one vector for each bag. Bags are the rows of `input` (B, N), or the parts of an input
--- (N) that begin at `offsets` (B), counted from 1. `per_sample_weights`, for sums only, have the
--- shape of the input. All arguments may be given by name.
---@param input Tensor
---@param offsets? Tensor
---@param per_sample_weights? Tensor
---@return Tensor  (B, embedding_dim)
function EmbeddingBag:forward(...)
   local a = take_call(...)
   return F.embedding_bag(a.input, self.weight, {
      offsets = a.offsets, mode = self.mode, per_sample_weights = a.per_sample_weights,
      include_last_offset = self.include_last_offset, padding_idx = self.padding_idx,
      max_norm = self.max_norm, norm_type = self.norm_type,
      scale_grad_by_freq = self.scale_grad_by_freq, sparse = self.sparse or false,
   })
end

function EmbeddingBag:extra_repr()
   local text = ("%d, %d, mode=%s"):format(self.num_embeddings, self.embedding_dim, self.mode)
   if self.max_norm then text = ("%s, max_norm=%g"):format(text, self.max_norm) end
   return text
end

return EmbeddingBag
