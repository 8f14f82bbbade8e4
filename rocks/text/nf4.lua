-- nf4.lua - linear layers whose weights are stored with 4 bits per element (QLoRA: Dettmers et al.,
-- 2023). Each block of 64 elements is divided by its largest absolute value. Each quotient is
-- replaced by the nearest of 16 numbers, which are quantiles of a normal distribution.

local torch = require "tlua"
local args = require "tlua.args"
local class = require "tlua.class"

local nn, F = torch.nn, torch.nn.functional

local M = {}

local block <const> = 64

-- The 16 numbers of the NF4 data type (QLoRA, appendix E).
local codes <const> = {
   -1.0, -0.6961928009986877, -0.5250730514526367, -0.39491748809814453, -0.28444138169288635,
   -0.18477343022823334, -0.09105003625154495, 0.0, 0.07958029955625534, 0.16093020141124725,
   0.24611230194568634, 0.33791524171829224, 0.44070982933044434, 0.5626170039176941,
   0.7229568362236023, 1.0,
}

-- Returns the 15 midpoints between adjacent codes. A number is rounded to the code on its side of a
-- midpoint.
local function borders(device)
   local list = {}
   for i = 1, 15 do list[i] = (codes[i] + codes[i + 1]) / 2 end
   return torch.tensor(list, {dtype = "float32", device = device})
end

-- Returns a table (256, 2) with the two numbers that each byte stands for. The upper half of the
-- byte is the code of the first number.
local function pairs_of_bytes(device)
   local list = {}
   for byte = 0, 255 do list[byte + 1] = {codes[(byte >> 4) + 1], codes[(byte & 15) + 1]} end
   return torch.tensor(list, {dtype = "float32", device = device})
end

--- Rounds a tensor to 4 bits per element. Returns the packed bytes, with two elements in each, and
--- the largest absolute value of each block of 64 elements. Elements are taken in row-major order.
---
---     local x = torch.tensor {1.0, -2.0, 0.5, 0.0}
---     local packed, absmax = torch.text.nf4.quantize(x)
---     print(torch.text.nf4.dequantize(packed, absmax, {4}))
---     --> tensor([ 0.8814, -2.0000,  0.4922,  0.0000])
---@param x Tensor  floating-point numbers, all finite
---@return Tensor packed  uint8, (ceil(numel / 2))
---@return Tensor absmax  float32, (ceil(numel / 64))
function M.quantize(x)
   local title = "text.nf4.quantize"
   if not torch.is_tensor(x) or not x:is_floating_point() or x:numel() == 0 then
      args.refuse(title, "x", "a tensor of floating-point numbers, not empty", x)
   end
   local flat = x:detach():float():flatten()
   if not flat:isfinite():all():item() then
      torch.raise(title .. ": x: expected finite numbers, got NaN or infinity")
   end
   local n = flat:numel()
   local blocks = F.pad(flat, {0, -n % block}):view(-1, block)
   local absmax = blocks:abs():amax(2)
   local shares = blocks / absmax:masked_fill(absmax:eq(0), 1):unsqueeze(2)
   local code = torch.bucketize(shares, borders(x.device)):long() - 1
   code = code:view(-1, 2)
   local packed = (code:select(2, 1) * 16 + code:select(2, 2)):to("uint8")
   return packed:narrow(1, 1, (n + 1) // 2):clone(), absmax
end

--- Returns the numbers that packed elements stand for; see quantize.
---@param packed Tensor  uint8
---@param absmax Tensor  float32
---@param shape integer[]
---@return Tensor  float32
function M.dequantize(packed, absmax, shape)
   local title = "text.nf4.dequantize"
   local n = 1
   if type(shape) ~= "table" then args.refuse(title, "shape", "a list of sizes", shape) end
   for i, size in ipairs(shape) do
      if math.type(size) ~= "integer" or size < 0 then
         args.refuse(title, ("shape[%d]"):format(i), "a size", size)
      end
      n = n * size
   end
   if not torch.is_tensor(packed) or packed.dtype ~= "uint8" or packed:numel() ~= (n + 1) // 2 then
      args.refuse(title, "packed", ("%d bytes"):format((n + 1) // 2), packed)
   end
   if not torch.is_tensor(absmax) or absmax:numel() ~= (n + block - 1) // block then
      args.refuse(title, "absmax", ("%d numbers"):format((n + block - 1) // block), absmax)
   end
   local values = pairs_of_bytes(packed.device):index_select(1, packed:int() + 1):flatten()
   values = F.pad(values, {0, absmax:numel() * block - values:numel()}):view(-1, block)
   return (values * absmax:unsqueeze(2)):flatten():narrow(1, 1, n):view(table.unpack(shape))
end

-- Computes x W^T, where W is unpacked from 4 bits per element. The backward pass unpacks W again,
-- so that the unpacked weight does not occupy memory until then.
local Product = class.class("text.nf4.Product", torch.autograd.Function)

function Product.forward(ctx, x, layer)
   ctx.layer = layer
   return F.linear(x, layer:dequantize():to(x.dtype))
end

function Product.backward(ctx, grad)
   return grad:matmul(ctx.layer:dequantize():to(grad.dtype)), nil
end

local function is_linear(layer)
   local kind = torch.type(layer)
   return kind == "nn.Linear" or kind == "text.models.Conv1D"
end

--- A linear layer whose weight has 4 bits per element and is not trained. `load_in_4bit` creates
--- these layers. Products are computed with the unpacked weight.
---
---     local layer = torch.text.nf4.Linear4bit(torch.nn.Linear(64, 2))
---     print(layer)
---     --> Linear4bit(64, 2, bias=true)
---@class text.Linear4bit: nn.Module
---@field in_features integer  the size of an input
---@field out_features integer  the size of a result
---@field packed Tensor  uint8; see text.nf4.quantize
---@field absmax Tensor  float32
local Linear4bit = class.class("text.Linear4bit", nn.Module)
M.Linear4bit = Linear4bit

--- Creates a 4-bit layer from a linear layer by quantizing the layer's weight to NF4. The given
--- layer does not change.
---@param layer nn.Module  a Linear or a Conv1D
function Linear4bit:__init(layer)
   if not is_linear(layer) then
      args.refuse("text.nf4.Linear4bit", "layer", "a Linear or a Conv1D", layer)
   end
   local weight = layer.weight:detach()
   if torch.type(layer) == "text.models.Conv1D" then weight = weight:t():contiguous() end
   self.out_features, self.in_features = weight:size(1), weight:size(2)
   self.compute_dtype = weight.dtype
   local packed, absmax = M.quantize(weight)
   self:register_buffer("packed", packed)
   self:register_buffer("absmax", absmax)
   if layer.bias then self.bias = layer.bias:detach():clone() end
   if self.bias then self.bias = nn.Parameter(self.bias, {requires_grad = false}) end
end

--- Returns the weight, rounded to 4 bits.
---@return Tensor  float32 (out_features, in_features)
function Linear4bit:dequantize()
   return M.dequantize(self.packed, self.absmax, {self.out_features, self.in_features})
end

--- Computes the product of the input and the rounded weight, and adds the bias.
---@param x Tensor  (..., in_features)
---@return Tensor  (..., out_features)
function Linear4bit:forward(x)
   local y = Product:apply(x, self)
   return self.bias and y + self.bias or y
end

function Linear4bit:extra_repr()
   return ("%d, %d, bias=%s"):format(self.in_features, self.out_features, self.bias ~= nil)
end

-- Names of layers that are not quantized: output layers, whose weight is often shared with the
-- embedding.
local kept_names <const> = {"lm_head", "embed_out", "score", "classifier", "qa_outputs", "cls"}

--- Replaces the linear layers of a model by layers whose weights have 4 bits per element (NF4), for
--- QLoRA. get_peft_model can then add adapters, which train in the model's dtype. Returns the model
--- and the number of replaced layers. Output layers such as lm_head are not replaced.
---
---     local config = {model_type = "gpt2", n_embd = 64, n_head = 2, n_layer = 1}
---     local model = torch.text.from_config(config)
---     local _, count = torch.text.nf4.load_in_4bit(model)
---     local tuned = torch.text.peft.get_peft_model(model, {r = 2})
---     print(count, #tuned:trainable_parameters())
---     --> 4	2
---@param model nn.Module
---@param options? {skip_modules: string[]}  names of further layers that are not replaced
---@return nn.Module model
---@return integer count
function M.load_in_4bit(model, options)
   local title = "text.nf4.load_in_4bit"
   if not class.isinstance(model, nn.Module) then args.refuse(title, "model", "a model", model) end
   args.check_options(title, options, "skip_modules")
   local skipped = {}
   for _, names in ipairs {kept_names, options and options.skip_modules or {}} do
      if type(names) ~= "table" then
         args.refuse(title, "skip_modules", "a list of names", names)
      end
      for _, name in ipairs(names) do skipped[name] = true end
   end
   local list = {}
   for path, layer in model:named_modules() do
      local keeps = not is_linear(layer)
      for name in path:gmatch "[^.]+" do keeps = keeps or skipped[name] end
      if not keeps then list[#list + 1] = {path, layer} end
   end
   if #list == 0 then
      torch.raise(("%s: model: expected linear layers, got none in %s"):format(title,
         torch.type(model)))
   end
   -- All layers are quantized before the first one is replaced, so that a weight that is not finite
   -- leaves the model unchanged.
   local layers = {}
   for i, item in ipairs(list) do layers[i] = Linear4bit(item[2]) end
   for i, item in ipairs(list) do
      local above, field = item[1]:match "^(.*)%.([^.]*)$"
      model:get_submodule(above or "")[field or item[1]] = layers[i]
   end
   return model, #list
end

return M
