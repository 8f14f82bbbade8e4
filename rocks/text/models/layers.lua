-- layers.lua - parts that several families share: activations by their names in config.json,
-- multi-head attention, linear layers with transposed weights, and gated feed-forward networks.

local torch = require "tlua"
local class = require "tlua.class"
local suggest = require "tlua.utils.suggest"

local nn, F = torch.nn, torch.nn.functional

local M = {}

local function gelu_tanh(x) return F.gelu(x, "tanh") end

local activations = {
   gelu = F.gelu, gelu_python = F.gelu, gelu_new = gelu_tanh, gelu_fast = gelu_tanh,
   gelu_pytorch_tanh = gelu_tanh, relu = F.relu, silu = F.silu, swish = F.silu, tanh = torch.tanh,
   sigmoid = torch.sigmoid, mish = F.mish, relu6 = F.relu6, leaky_relu = F.leaky_relu,
   quick_gelu = function(x) return x * torch.sigmoid(x * 1.702) end,
   relu2 = function(x) return F.relu(x):square() end,
   linear = function(x) return x end,
}

--- Returns the activation with the given name in config.json.
---@param name string
---@return fun(x: Tensor): Tensor
function M.activation(name)
   if not activations[name] then
      torch.raise(("config.json: hidden_act: there is no activation %q%s"):format(tostring(name),
         suggest.hint(tostring(name), activations)))
   end
   return activations[name]
end

-- Activations that F.linear can apply in the same pass over memory.
local fused = {
   gelu = "gelu", gelu_new = "gelu_tanh", gelu_pytorch_tanh = "gelu_tanh", relu = "relu",
}

--- Applies a linear layer and then an activation.
---@param linear nn.Linear
---@param x Tensor
---@param name string  the activation's name in config.json
---@return Tensor
function M.activated(linear, x, name)
   if fused[name] and nn.Linear.takes_activation(linear) then return linear(x, fused[name]) end
   return M.activation(name)(linear(x))
end

-- Layers release the intermediate tensors of a long prompt immediately, so that the next tensors
-- reuse their memory, which is still in the processor's cache. Otherwise, these tensors would
-- occupy memory until the next garbage collection.

-- Modules of these classes return a new tensor from each call, and do not keep a reference to it.
local makers = {[nn.Linear] = true, [nn.Embedding] = true, [nn.RMSNorm] = true}

--- Declares that each call of a class's modules returns a new tensor that the modules do not keep.
---@param of table  the class
function M.returns_new(of) makers[of] = true end

--- Returns whether nothing but the caller holds the arguments and results of calls of these
--- modules: the modules have no hooks and keep no tensors, and gradients are not computed.
---@param ... nn.Module
---@return boolean
function M.owns(...)
   if torch.is_grad_enabled() then return false end
   for i = 1, select("#", ...) do
      local module = select(i, ...)
      if not makers[getmetatable(module)] or rawget(module, "_hooks")
         or rawget(module, "forward") then
         return false
      end
   end
   return true
end

--- Returns whether x is so large that it pays to release the tensors of its size at once.
---@param x Tensor
---@return boolean
function M.is_large(x) return x:numel() >= 1 << 15 end

--- Releases tensors.
---@param list Tensor[]
function M.release(list)
   for _, tensor in ipairs(list) do tensor:release() end
end

--- Splits (B, S, heads * D) into heads: (B, heads, S, D).
---@param x Tensor
---@param heads integer
---@return Tensor
function M.split_heads(x, heads)
   local parts <close> = x:view(x:size(1), x:size(2), heads, -1)
   return parts:transpose(2, 3)
end

--- Joins heads (B, heads, S, D) to (B, S, heads * D).
---@param x Tensor
---@return Tensor
function M.join_heads(x)
   local turned <close> = x:transpose(2, 3)
   return turned:flatten(3)
end

-- Computes attention for one query in each head, without gradients, as two matrix products. On a
-- CPU, this is several times as fast as the attention operator, which computes blocks of queries.
local function attend_one(q, k, v, scale)
   local batch, heads, size, groups = q:size(1), q:size(2), q:size(4), k:size(2)
   local rows = q:view(batch, groups, heads // groups, size)
   local weights = rows:matmul(k:transpose(3, 4)):mul_(scale or size ^ -0.5):softmax(-1)
   return weights:matmul(v):view(batch, heads, 1, -1)
end

--- Computes multi-head attention. `state` has mask and is_causal. The options are scale, dropout,
--- and softcap, which bounds the scores.
---@param q Tensor  (B, H, L, D)
---@param k Tensor  (B, G, S, D)
---@param v Tensor  (B, G, S, D)
---@param state {mask: Tensor?, is_causal: boolean?}
---@param options? {scale: number, softcap: number, dropout: number}
---@return Tensor  (B, H, L, D)
function M.attend(q, k, v, state, options)
   options = options or {}
   local mask, softcap = state.mask, options.softcap
   if q:size(3) == 1 and not mask and not softcap and (options.dropout or 0) == 0
         and q.device.type == "cpu" and q.dtype == "float32" and not torch.is_grad_enabled() then
      return attend_one(q, k, v, options.scale)
   end
   if not softcap then
      return F.scaled_dot_product_attention(q, k, v, mask, options.dropout or 0.0,
         state.is_causal or false, {scale = options.scale, enable_gqa = q:size(2) ~= k:size(2)})
   end
   local groups = q:size(2) // k:size(2)
   if groups > 1 then k, v = k:repeat_interleave(groups, 2), v:repeat_interleave(groups, 2) end
   local scores = q:matmul(k:transpose(3, 4)) * (options.scale or q:size(4) ^ -0.5)
   scores = (scores / softcap):tanh() * softcap
   if state.is_causal then
      mask = torch.ones(q:size(3), k:size(3), {dtype = "bool", device = q.device}):tril()
   end
   if mask then scores = scores:masked_fill(mask:logical_not(), -math.huge) end
   local weights = scores:softmax(-1)
   if mask then weights = weights:masked_fill(mask:logical_not(), 0) end
   if options.dropout and options.dropout > 0 then weights = F.dropout(weights, options.dropout) end
   return weights:matmul(v)
end

--- Computes attention over the keys in the state's cache. Without a cache, it is computed over the
--- new keys alone.
---@param index integer  the layer, from 1
---@param q Tensor  (B, H, L, D)
---@param k Tensor  (B, G, L, D)
---@param v Tensor  (B, G, L, D)
---@param state table
---@param options? table  the options of `attend`
---@return Tensor  (B, H, L, D)
function M.attend_cached(index, q, k, v, state, options)
   if state.cache then return state.cache:attend(index, q, k, v, state, options) end
   return M.attend(q, k, v, state, options)
end

--- A linear layer whose weight is stored transposed (in_features, out_features), as in GPT-2.
---@class text.models.Conv1D: nn.Module
local Conv1D = class.class("text.models.Conv1D", nn.Module)
M.Conv1D = Conv1D

---@param outputs integer
---@param inputs integer
function Conv1D:__init(outputs, inputs)
   self.weight = nn.Parameter(torch.empty(inputs, outputs))
   self.bias = nn.Parameter(torch.zeros(outputs))
   nn.init.normal_(self.weight, 0, 0.02)
end

function Conv1D:forward(x) return F.linear(x, self.weight:t(), self.bias) end

function Conv1D:extra_repr()
   return ("in_features=%d, out_features=%d"):format(self.weight:size(1), self.weight:size(2))
end

--- LLaMA's gated feed-forward network: down(act(gate(x)) * up(x)).
---@class text.models.GatedMLP: nn.Module
local GatedMLP = class.class("text.models.GatedMLP", nn.Module)
M.GatedMLP = GatedMLP
M.returns_new(GatedMLP)

---@param size integer
---@param inner integer
---@param act string  the activation's name
---@param bias? boolean
function GatedMLP:__init(size, inner, act, bias)
   local options = {bias = bias or false}
   self.act = M.activation(act)
   self.gate_proj = nn.Linear(size, inner, options)
   self.up_proj = nn.Linear(size, inner, options)
   self.down_proj = nn.Linear(inner, size, options)
end

-- Returns whether `forward` may release its intermediate tensors: no hook or gradient can hold
-- them.
function GatedMLP:owns() return M.owns(self, self.gate_proj, self.up_proj, self.down_proj) end

function GatedMLP:forward(x)
   local gate, up = self.gate_proj(x), self.up_proj(x)
   local inner = self.act == F.silu and F.swiglu(up, gate) or self.act(gate) * up
   local y = self.down_proj(inner)
   if M.is_large(x) and self:owns() then M.release {gate, up, inner} end
   return y
end

--- Returns a list of modules, each made by `make(i)`.
---@param count integer
---@param make fun(i: integer): nn.Module
---@return nn.ModuleList
function M.list(count, make)
   local list = nn.ModuleList()
   for i = 1, count do list:append(make(i)) end
   return list
end

return M
