-- layers.lua - linear layers and embeddings whose weights are stored in a packed layout of GGUF
-- files.

local torch = require "tlua"
local args = require "tlua.args"
local class = require "tlua.class"
local model_layers = require "tlua.text.models.layers"

local nn, F = torch.nn, torch.nn.functional

local M = {}

-- Raises an error unless a weight fits its layout: floating-point numbers for "F32", and otherwise
-- bytes.
local function check_weight(name, layout, weight)
   local is_plain = layout == "F32"
   if weight:dim() ~= 2 or is_plain ~= weight:is_floating_point()
      or not is_plain and weight.dtype ~= "uint8" then
      args.refuse(name, "weight", is_plain and "a matrix of floating-point numbers"
         or ("a matrix of uint8 for the layout %s"):format(layout), weight)
   end
end

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
model_layers.returns_new(Linear)

local take_linear = args.signature "llm.Linear(layout: string, weight: tensor, bias: tensor?)"

---@param layout string
---@param weight Tensor  (out, bytes of a row) uint8, or (out, in) numbers
---@param bias? Tensor
function Linear:__init(...)
   local a = take_linear(...)
   check_weight("llm.Linear", a.layout, a.weight)
   self.layout = a.layout
   self:register_buffer("weight", a.weight:detach(), false)
   if a.bias then self:register_buffer("bias", a.bias, false) end
end

--- Returns x times the transposed weight, plus the bias and the outputs of the adapters.
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

-- Multiplies x by the transposed weight.
local function multiply(x, weight, layout)
   if layout == "F32" then return F.linear(x, weight) end
   return F.packed_linear(x, weight, layout)
end

-- Holds the weights of one linear layer for all experts of a mixture.
local ExpertLinear = class.class("llm.ExpertLinear", nn.Module)

function ExpertLinear:__init(experts, outputs, features)
   self.experts, self.outputs, self.features = experts, outputs, features
end

-- Sets the weights of all experts, one below the other. They have the shape (experts * outputs,
-- bytes of a row) and the dtype uint8, or the shape (experts * outputs, features).
function ExpertLinear:fill(layout, weight)
   self.layout = layout
   self:register_buffer("weight", weight, false)
end

-- Multiplies rows (N, in) by the weight of one expert.
function ExpertLinear:forward(x, expert)
   local n = self.outputs
   return multiply(x, self.weight:narrow(1, (expert - 1) * n + 1, n), self.layout)
end

function ExpertLinear:extra_repr()
   return ("%s, experts=%d, out_features=%d"):format(self.layout or "empty", self.experts,
      self.outputs)
end

-- A mixture of experts in place of a layer's feed-forward network. For each token, the router
-- computes the probability of each expert. The outputs of the most probable experts are weighted by
-- their probabilities and added.
local Experts = class.class("llm.Experts", nn.Module)
M._Experts = Experts

function Experts:__init(o)
   self.used, self.renormalize, self.has_shared = o.used, o.renormalize, o.shared ~= nil
   self.router = nn.Linear(o.hidden_size, o.count, {bias = false})
   self.gate = ExpertLinear(o.count, o.inner, o.hidden_size)
   self.up = ExpertLinear(o.count, o.inner, o.hidden_size)
   self.down = ExpertLinear(o.count, o.hidden_size, o.inner)
   if o.shared then
      self.shared_gate = nn.Linear(o.hidden_size, 1, {bias = false})
      self.shared = model_layers.GatedMLP(o.hidden_size, o.shared, "silu")
   end
end

-- Returns a table {[expert] = {rows, weights}}: for each expert, the list of the rows that use it,
-- and the list of its weights in these rows.
local function rows_by_expert(chosen, weights)
   local groups = {}
   for row, list in ipairs(chosen:tolist()) do
      for k, expert in ipairs(list) do
         groups[expert] = groups[expert] or {rows = {}, places = {}}
         table.insert(groups[expert].rows, row)
         table.insert(groups[expert].places, (row - 1) * #list + k)
      end
   end
   local flat = weights:flatten()
   for _, group in pairs(groups) do
      local like = {dtype = "int64", device = flat.device}
      group.index = torch.tensor(group.rows, like)
      group.weights = flat:index_select(1, torch.tensor(group.places, like)):unsqueeze(2)
   end
   return groups
end

function Experts:forward(x)
   local flat = x:flatten(1, -2)
   local weights, chosen = self.router(flat):float():softmax(-1):topk(self.used, -1)
   if self.renormalize then weights = weights / weights:sum(-1, true) end
   local sum = torch.zeros_like(flat)
   local groups = rows_by_expert(chosen, weights:to(flat.dtype))
   -- The experts are called in a fixed order, so that sums are reproducible.
   for expert = 1, self.gate.experts do
      local group = groups[expert]
      if group then
         local own = flat:index_select(1, group.index)
         local y = self.down(F.silu(self.gate(own, expert)) * self.up(own, expert), expert)
         sum = sum:index_add(1, group.index, y * group.weights)
      end
   end
   if self.has_shared then
      sum = sum + self.shared(flat) * torch.sigmoid(self.shared_gate(flat))
   end
   return sum:view_as(x)
end

--- An embedding whose weight is stored in a packed layout.
---
---     local layer = torch.llm.Embedding("F32", torch.eye(3))
---     print(layer(torch.tensor {{2}}))
---     --> tensor([[[0., 1., 0.]]])
---@class llm.Embedding: nn.Module
---@field layout string  the layout of the weight
---@field weight Tensor  (tokens, bytes of a row) uint8, or (tokens, features) numbers
local Embedding = class.class("llm.Embedding", nn.Module)
M.Embedding = Embedding
model_layers.returns_new(Embedding)

local take_embedding = args.signature "llm.Embedding(layout: string, weight: tensor)"

---@param layout string
---@param weight Tensor  (tokens, bytes of a row) uint8, or (tokens, features) numbers
function Embedding:__init(...)
   local a = take_embedding(...)
   check_weight("llm.Embedding", a.layout, a.weight)
   self.layout = a.layout
   self:register_buffer("weight", a.weight:detach(), false)
end

--- Returns the embedding of each token, which is a row of the weight.
---@param ids Tensor  (B, S)
---@return Tensor  (B, S, features)
function Embedding:forward(ids)
   if self.layout == "F32" then return F.embedding(ids, self.weight) end
   local rows <close> = self.weight:index_select(1, ids:flatten())
   local values <close> = F.packed_values(rows, self.layout)
   return values:view(ids:size(1), ids:size(2), -1)
end

function Embedding:extra_repr()
   return ("%s, tokens=%d"):format(self.layout, self.weight:size(1))
end

return M
