-- Embedding.lua - nn.Embedding: looks up vectors in a table by their positions.

local torch = require "tlua"
local args = require "tlua.args"
local class = require "tlua.class"
local F = require "tlua.nn.functional"
local init = require "tlua.nn.initializers"
local Module = require "tlua.nn.modules.Module"
local Parameter = require "tlua.nn.Parameter"

local signature = args.signature [[nn.Embedding(num_embeddings: count, embedding_dim: count,
   padding_idx: integer?, max_norm: number?, norm_type: number = 2,
   scale_grad_by_freq: boolean = false, sparse: boolean = false, device: device?,
   dtype: string?)]]

--- A table of num_embeddings vectors, which are looked up by their positions, counted from 1. The
--- shape of the result is the shape of the positions followed by embedding_dim.
---
---     local layer = torch.nn.Embedding(10, 3) -- ten words of three features
---     print(table.unpack(layer(torch.tensor {{1, 10}, {2, 2}}).shape)) -- from 1
---     --> 2	2	3
---@class nn.Embedding: nn.Module
---@field weight Tensor  (num_embeddings, embedding_dim)
---@overload fun(num_embeddings: integer, embedding_dim: integer, options?: table): nn.Embedding
local Embedding, parent = class.class("nn.Embedding", Module)

--- Makes the layer. Positions count from 1. The row at `padding_idx` starts as zeros and is never
--- learnt. With `max_norm`, rows that are looked up are first scaled down to the norm max_norm if
--- their norm is larger. With `sparse` the gradient of the weight is a sparse tensor with only the
--- rows that were looked up; SparseAdam, SGD and Adagrad accept such a gradient. With
--- `scale_grad_by_freq` the gradient of a row is divided by how often the row was looked up.
---@param num_embeddings integer
---@param embedding_dim integer
---@param options? {padding_idx: integer, max_norm: number, norm_type: number,
--- scale_grad_by_freq: boolean, sparse: boolean, device: string|torch.device, dtype: string}
function Embedding:__init(...)
   parent.__init(self)
   local a = signature(...)
   local n = a.num_embeddings
   local index = a.padding_idx
   if index then
      if index < 0 then index = n + 1 + index end
      if index < 1 or index > n then
         args.refuse("nn.Embedding", "padding_idx", ("a position from 1 to %d"):format(n),
            a.padding_idx)
      end
   end
   self.num_embeddings, self.embedding_dim, self.padding_idx = n, a.embedding_dim, index
   self.max_norm, self.norm_type = a.max_norm, a.norm_type
   self.scale_grad_by_freq, self.sparse = a.scale_grad_by_freq, a.sparse
   self.weight = Parameter(torch.empty(n, a.embedding_dim, {device = a.device, dtype = a.dtype}))
   self:reset_parameters()
end

--- Makes a layer with given vectors, which are not trained unless `freeze = false`.
---@param weight Tensor  (num_embeddings, embedding_dim)
---@param options? {freeze: boolean, padding_idx: integer, max_norm: number, norm_type: number,
--- scale_grad_by_freq: boolean, sparse: boolean}
---@return nn.Embedding
function Embedding.from_pretrained(weight, options)
   if not torch.is_tensor(weight) or weight:dim() ~= 2 then
      args.refuse("nn.Embedding.from_pretrained", "weight", "a tensor of 2 dimensions", weight)
   end
   local rest = {}
   for name, value in pairs(options or {}) do
      if name ~= "freeze" then rest[name] = value end
   end
   local embedding = Embedding(weight:size(1), weight:size(2), rest)
   local freeze = not options or options.freeze ~= false
   embedding.weight = Parameter(weight, not freeze)
   return embedding
end

--- Fills the table with normally distributed values.
function Embedding:reset_parameters()
   init.normal_(self.weight)
   if not self.padding_idx then return end
   local _ <close> = torch.no_grad()
   self.weight:select(1, self.padding_idx):zero_()
end

-- Scales rows that are looked up, and whose norm exceeds max_norm, down to max_norm.
local function limit_norms(weight, input, max_norm, norm_type)
   local _ <close> = torch.no_grad()
   local used = input:reshape(-1)
   local rows = weight:index_select(1, used)
   local norms = rows:norm(norm_type, 2, true)
   local factors = (max_norm / (norms + 1e-7)):clamp_max(1)
   weight:index_copy_(1, used, rows * factors)
end

---@param input Tensor  positions of any shape (*)
---@return Tensor  (*, embedding_dim)
function Embedding:forward(input)
   -- for arguments other than tensors, F.embedding raises the error
   if self.max_norm and torch.is_tensor(input) then
      limit_norms(self.weight, input, self.max_norm, self.norm_type)
   end
   return F.embedding(input, self.weight, {
      padding_idx = self.padding_idx, scale_grad_by_freq = self.scale_grad_by_freq,
      sparse = self.sparse or false,
   })
end

function Embedding:extra_repr()
   local text = ("%d, %d"):format(self.num_embeddings, self.embedding_dim)
   if self.padding_idx then text = text .. ", padding_idx=" .. self.padding_idx end
   if self.max_norm then text = ("%s, max_norm=%g"):format(text, self.max_norm) end
   if self.sparse then text = text .. ", sparse=True" end
   return text
end

return Embedding
