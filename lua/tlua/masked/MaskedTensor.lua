-- MaskedTensor.lua - tensors with a mask. Elements at which the mask is false are left out.

local torch = require "tlua"
local args = require "tlua.args"
local wrapped = require "tlua.wrapped"
local O = require "tlua.masked.operations"

local M = {}

local kind = wrapped.kind {
   title = "masked tensor", plural = "masked tensors",
   hint = "to_tensor(value) makes a dense one", main = "data", rest = "mask",
}
M.kind = kind

local define <const>, parts <const> = kind.define, kind.parts

-- Returns whether two tensors have the same mask. Masks on the meta device are taken to be equal.
function kind.same(p, q)
   if rawequal(p.mask, q.mask) then return true end
   if p.mask.is_meta and q.mask.is_meta then return p.mask.shape == q.mask.shape end
   return torch.equal(p.mask, q.mask)
end
function kind.length(p) return #p.data end
function kind.moved(p, data)
   return kind.new {data = data, mask = p.mask:to(data.device)}
end

-- Constructors ------------------------------------------------------------------------------------

local function check(who, data, mask)
   if torch._wrapped_parts(data, getmetatable(data)) then
      args.refuse(who, "data", "a dense tensor", data)
   end
   if mask.dtype ~= "bool" or args.kind_of(mask) then
      args.refuse(who, "mask", "a dense tensor of bool, true where elements count", mask)
   end
   local same = mask:dim() == data:dim()
   for d = 1, same and data:dim() or 0 do same = same and data:size(d) == mask:size(d) end
   if not same then
      torch.raise(("%s: mask: expected the shape of data, (%s), got (%s)"):format(who,
         table.concat(data.shape, ", "), table.concat(mask.shape, ", ")))
   end
end

local take = args.signature [[masked.masked_tensor(data: tensor, mask: tensor,
   requires_grad: boolean = false)]]

--- Makes a MaskedTensor of copies of data and mask. Elements at which the mask is false are left
--- out of reductions and print as `--`. Operators of one tensor apply to the data; for operators of
--- two, both must have the same mask if both are masked. A MaskedTensor has many methods of a
--- tensor, and also
--- get_data(), get_mask() and to_tensor(value), which returns a dense tensor with `value` in place
--- of the elements that are left out.
---
---     local x = torch.tensor {1.0, -4.0, 9.0}
---     local m = torch.masked.masked_tensor(x, x:gt(0))
---     print(m:sqrt():sum():to_tensor(0))
---     --> tensor(4.)
---@param data Tensor
---@param mask Tensor  of bool, of the same shape
---@param options? {requires_grad?: boolean}
---@return Tensor
function M.masked_tensor(...)
   local a = take(...)
   check("masked.masked_tensor", a.data, a.mask)
   local data = a.data:detach():clone()
   if a.requires_grad then data:requires_grad_() end
   return kind.new {data = data, mask = a.mask:clone()}
end
--- The same as torch.masked.masked_tensor.
---@param data Tensor
---@param mask Tensor
---@param options? {requires_grad?: boolean}
---@return Tensor
M.MaskedTensor = M.masked_tensor

local take_as = args.signature "masked.as_masked_tensor(data: tensor, mask: tensor)"

--- Makes a MaskedTensor of a copy of data, to which gradients are passed on; elements that are left
--- out get a gradient of 0.
---@param data Tensor
---@param mask Tensor  of bool, of the same shape
---@return Tensor
function M.as_masked_tensor(...)
   local a = take_as(...)
   check("masked.as_masked_tensor", a.data, a.mask)
   local data, mask = a.data:clone(), a.mask:clone()
   if data.requires_grad and torch.is_grad_enabled() then
      data:register_hook(function(grad)
         return torch.where(mask, grad, torch.zeros({}, {dtype = grad.dtype, device = grad.device}))
      end)
   end
   return kind.new {data = data, mask = mask}
end

--- Returns whether a value is a MaskedTensor.
---@param obj any
---@return boolean
function M.is_masked_tensor(obj) return parts(obj) ~= nil end

-- Fields and simple methods -----------------------------------------------------------------------

function kind.properties.shape(p) return p.data.shape end
function kind.properties.ndim(p) return p.data.ndim end
function kind.properties.layout(p) return p.data.layout end

for name in ("size dim ndimension numel nelement stride is_contiguous"):gmatch "%S+" do
   define(name, function(x, ...)
      local data = parts(x).data
      return data[name](data, ...)
   end)
end
define("get_data", function(x) return parts(x).data end)
define("get_mask", function(x) return parts(x).mask end)
define("to_tensor", function(x, value)
   if type(value) ~= "number" and type(value) ~= "boolean" then
      args.refuse("to_tensor", "value", "a number", value)
   end
   local p = parts(x)
   return torch.where(p.mask, p.data, torch.full({}, value,
      {dtype = p.data.dtype, device = p.data.device}))
end)
define("item", function(x)
   local p = parts(x)
   local value = p.data:item()
   if not p.mask:item() then torch.raise "item: the element is left out" end
   return value
end)

-- These functions rearrange the elements of a tensor. They rearrange data and mask in the same way.
for name in ([[view reshape flatten unflatten transpose permute movedim squeeze unsqueeze select
   narrow expand expand_as t swapaxes swapdims flip roll]]):gmatch "%S+" do
   define(name, function(x, ...)
      local p = parts(x)
      if not p then kind.unsupported(name) end
      return kind.new {data = p.data[name](p.data, ...), mask = p.mask[name](p.mask, ...)}
   end)
end
kind.operators.__index = function(x, key)
   local p = parts(x)
   return kind.new {data = p.data[key], mask = p.mask[key]}
end

-- Elementwise operators ---------------------------------------------------------------------------

local function in_place(name)
   if not rawget(torch.Tensor, name .. "_") then return end
   define(name .. "_", function(x, ...)
      local p = parts(x)
      if not p then
         torch.raise(("%s_: a dense tensor cannot take a masked result"):format(name))
      end
      local result = parts(kind.operators[name](x, ...))
      if not kind.same(result, p) then
         torch.raise(("%s_: the masks differ"):format(name))
      end
      p.data:copy_(result.data)
      return x
   end)
end

for name in wrapped.unary:gmatch "%S+" do
   local fn = wrapped.of(name)
   if fn then
      define(name, function(x, ...)
         local p = parts(x)
         if not p then kind.unsupported(name) end
         for i = 1, select("#", ...) do
            if parts((select(i, ...))) then kind.unsupported(name .. " with a masked argument") end
         end
         return kind.new {data = fn(p.data, ...), mask = p.mask}
      end)
      in_place(name)
   end
end

-- Returns the mask of an operator's result, which has the given shape: that of p or q, the parts of
-- the operator's masked arguments. Raises an error if both have masks and the masks differ.
local function common_mask(name, p, q, shape)
   if p and q and not kind.same(p, q) then
      torch.raise(("%s: expected masked tensors with the same mask"):format(name))
   end
   return (p or q).mask:expand(shape)
end

for name in wrapped.binary:gmatch "%S+" do
   local fn = wrapped.of(name)
   if fn then
      define(name, function(a, b, ...)
         local p, q = parts(a), parts(b)
         if not (p or q) then kind.unsupported(name) end
         local compute = not p and type(a) == "number" and wrapped.of_number[name] or fn
         local data = compute(p and p.data or a, q and q.data or b, ...)
         return kind.new {data = data, mask = common_mask(name, p, q, data.shape)}
      end)
      in_place(name)
   end
end

define("where", function(condition, a, b)
   local c, p, q = parts(condition), parts(a), parts(b)
   if c or not (p or q) then kind.unsupported(c and "where with a masked condition" or "where") end
   local data = torch.where(condition, p and p.data or a, q and q.data or b)
   local function mask_of(r)
      return r and r.mask or torch.ones({}, {dtype = "bool", device = data.device})
   end
   return kind.new {data = data, mask = torch.where(condition, mask_of(p), mask_of(q))}
end, false)

-- Reductions --------------------------------------------------------------------------------------

-- Returns the mask of a reduction's result. It is true where at least one of the reduced elements
-- is not left out.
local function any_of(mask, dim, keepdim)
   if dim == nil then
      local any = mask:any()
      if keepdim then
         local ones = {}
         for d = 1, mask:dim() do ones[d] = 1 end
         any = any:view(ones)
      end
      return any
   end
   return mask:any(dim, {keepdim = keepdim})
end

-- Reads the arguments of a reduction. Returns dim and keepdim.
local function read(...)
   local given = table.pack(...)
   local last = given[given.n]
   local options = {}
   if type(last) == "table" and #last == 0 and next(last) then
      options = last
      given.n = given.n - 1
   end
   local dim, keepdim = given[1], given[2]
   if given.n < 1 then dim = options.dim end
   if given.n < 2 then keepdim = options.keepdim end
   return dim, keepdim or false
end

for name in ("sum prod amax amin argmax argmin mean var std logsumexp"):gmatch "%S+" do
   define(name, function(x, ...)
      local dim, keepdim = read(...)
      local p = parts(x)
      return kind.new {data = O[name](x, ...), mask = any_of(p.mask, dim, keepdim)}
   end)
end
define("norm", function(x, ord, ...)
   local dim, keepdim = read(...)
   return kind.new {data = O.norm(x, ord or 2, ...), mask = any_of(parts(x).mask, dim, keepdim)}
end)
define("median", function(x, ...)
   local dim, keepdim = read(...)
   return kind.new {data = O.median(x, ...), mask = any_of(parts(x).mask, dim or -1, keepdim)}
end)
for name, neutral in pairs {all = true, any = false} do
   define(name, function(x, ...)
      local p = parts(x)
      local dim, keepdim = read(...)
      local full = torch.where(p.mask, p.data:to "bool", torch.full({}, neutral,
         {dtype = "bool", device = p.data.device}))
      return kind.new {data = full[name](full, ...), mask = any_of(p.mask, dim, keepdim)}
   end)
end
for name in ("cumsum cumprod softmax log_softmax softmin normalize"):gmatch "%S+" do
   define(name, function(x, ...) return kind.new {data = O[name](x, ...), mask = parts(x).mask} end)
end

-- Printing ----------------------------------------------------------------------------------------

local function element(value)
   if math.type(value) == "float" then return ("%8.4f"):format(value) end
   if type(value) == "boolean" then return value and "True" or "False" end
   return tostring(value)
end

local function text_of(data, mask)
   if data:dim() == 1 then
      local list, longest = {}, 0
      for i = 1, data:size(1) do
         local counts = mask[i]:item()
         list[i] = counts and element(data[i]:item()) or "--"
         longest = math.max(longest, counts and #list[i] or 8)
      end
      for i, word in ipairs(list) do
         if word == "--" then list[i] = (" "):rep(longest - 2) .. word end
      end
      return "[" .. table.concat(list, ", ") .. "]"
   end
   local list = {}
   for i = 1, data:size(1) do
      list[i] = "  " .. text_of(data[i], mask[i]):gsub("\n", "\n  ")
   end
   return "[\n" .. table.concat(list, ",\n") .. "\n]"
end

function kind.text(p)
   if p.data.is_meta then return ("MaskedTensor(%s, %s)"):format(p.data, p.mask) end
   local data, mask = p.data:detach():cpu(), p.mask:cpu()
   if data:dim() == 0 then
      local counts = mask:item()
      return ("MaskedTensor(%s, %s)"):format(counts and element(data:item()) or "--",
         counts and "True" or "False")
   end
   return "MaskedTensor(\n  " .. text_of(data, mask):gsub("\n", "\n  ") .. "\n)"
end

return M
