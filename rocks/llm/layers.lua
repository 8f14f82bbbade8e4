-- layers.lua - linear layers and embeddings whose weights are in a packed layout of GGUF files.

local torch = require "tlua"
local args = require "tlua.args"
local class = require "tlua.class"

local nn, F = torch.nn, torch.nn.functional

local M = {}

--- A linear layer with a packed weight. Gradients flow to the input, but not to the weight.
---
---     local layer = torch.nn.Linear(2, 1, {bias = false})
---     layer.weight = torch.nn.Parameter(torch.tensor {{1.0, 2.0}})
---     print(torch.llm.Linear("F32", layer.weight)(torch.ones(1, 2)):item())
---     --> 3.0
---@class llm.Linear: nn.Module
---@field layout string  the layout of the weight, such as "Q4_K"; "F32" for an ordinary tensor
---@field weight Tensor  (out, bytes of a row) uint8, or (out, in) numbers
---@field bias? Tensor  (out)
---@field features integer  the number of inputs
---@field lora? {a: Tensor, b: Tensor, scale: number}[]  adapters
local Linear = class.class("llm.Linear", nn.Module)
M.Linear = Linear

local take_linear = args.signature "llm.Linear(layout: string, weight: tensor, bias: tensor?)"

---@param layout string
---@param weight Tensor  (out, bytes of a row) uint8, or (out, in) numbers
---@param bias? Tensor
function Linear:__init(...)
   local a = take_linear(...)
   self.layout = a.layout
   self:register_buffer("weight", a.weight:detach(), false)
   if a.bias then self:register_buffer("bias", a.bias, false) end
end

--- Multiplies by the transpose of the weight, and adds the bias and the adapters' outputs.
---@param x Tensor  (..., in)
---@return Tensor  (..., out)
function Linear:forward(x)
   local layout, y = self.layout
   if layout == "F32" then
      y = F.linear(x, self.weight, rawget(self, "bias"))
   else
      y = F.packed_linear(x, self.weight, layout)
      if rawget(self, "bias") then y = y + self.bias end
   end
   for _, adapter in ipairs(rawget(self, "lora") or {}) do
      y = y + F.linear(F.linear(x, adapter.a), adapter.b) * adapter.scale
   end
   return y
end

function Linear:extra_repr()
   return ("%s, out_features=%d"):format(self.layout, self.weight:size(1))
end

--- An embedding with packed rows.
---
---     local layer = torch.llm.Embedding("F32", torch.eye(3))
---     print(layer(torch.tensor {{2}}))
---     --> tensor([[[0., 1., 0.]]])
---@class llm.Embedding: nn.Module
---@field layout string  the layout of the weight
---@field weight Tensor  (tokens, bytes of a row) uint8, or (tokens, features) numbers
local Embedding = class.class("llm.Embedding", nn.Module)
M.Embedding = Embedding

local take_embedding = args.signature "llm.Embedding(layout: string, weight: tensor)"

---@param layout string
---@param weight Tensor  (tokens, bytes of a row) uint8, or (tokens, features) numbers
function Embedding:__init(...)
   local a = take_embedding(...)
   self.layout = a.layout
   self:register_buffer("weight", a.weight:detach(), false)
end

--- Returns the row of each token.
---@param ids Tensor  (B, S)
---@return Tensor  (B, S, features)
function Embedding:forward(ids)
   if self.layout == "F32" then return F.embedding(ids, self.weight) end
   local rows = self.weight:index_select(1, ids:flatten())
   return F.packed_values(rows, self.layout):view(ids:size(1), ids:size(2), -1)
end

function Embedding:extra_repr()
   return ("%s, tokens=%d"):format(self.layout, self.weight:size(1))
end

return M
