-- quantized.lua - quantized tensors in files: the integers, and scales and zero points, which are
-- tensors if there is one for each channel. In PyTorch's files the axis counts from 0.

local torch = require "tlua"

local M = {}

--- Maps dtypes to the names of PyTorch's storage classes.
M.storages = {quint8 = "QUInt8Storage", qint8 = "QInt8Storage", qint32 = "QInt32Storage"}

local integers_of <const> = {quint8 = "uint8", qint8 = "int8", qint32 = "int32"}

--- Returns the dtype of the integers, such as "uint8" for "quint8".
---@param dtype string
---@return string
function M.integers_dtype(dtype) return integers_of[dtype] end

--- Returns the parts of a quantized tensor.
---@param x ao.QuantizedTensor
---@return {integers: Tensor, dtype: string, scale: number|Tensor, zero_point: integer|Tensor,
--- axis: integer?}
function M.parts(x) return torch._wrapped_parts(x, getmetatable(x)) end

--- Returns the dense tensors that represent a quantized tensor in a file.
---@param x ao.QuantizedTensor
---@return Tensor[]
function M.tensors(x)
   local p = M.parts(x)
   return p.axis and {p.integers, p.scale, p.zero_point} or {p.integers}
end

--- Writes a quantized tensor into a pickle.
---@param out io.Pickler
---@param x ao.QuantizedTensor
---@param put fun(out: io.Pickler, tensor: Tensor, requires_grad: boolean)  writes a dense tensor
---@param put_view fun(out: io.Pickler, tensor: Tensor, class: string)  writes a storage of that
--- class, and the offset, sizes and strides of the tensor in the storage
function M.put(out, x, put, put_view)
   local p = M.parts(x)
   out:call("torch._utils", "_rebuild_qtensor", function()
      put_view(out, p.integers, M.storages[p.dtype])
      out:raw "("
      out:global("torch", p.axis and "per_channel_affine" or "per_tensor_affine")
      if p.axis then
         put(out, p.scale, false)
         put(out, p.zero_point, false)
         out:integer(p.axis - 1)
      else
         out:put(p.scale)
         out:integer(p.zero_point)
      end
      out:raw "t"
      out:put(false)
      out:call("collections", "OrderedDict", function() end)
   end)
end

local function check_channels(p, low, high)
   local size = p.integers.shape[p.axis]
   if not size then torch.raise "the axis is no dimension" end
   for _, name in ipairs {"scale", "zero_point"} do
      local v = p[name]
      if not torch.is_tensor(v) or v:dim() ~= 1 or v:size(1) ~= size then
         torch.raise "scales and zero points do not fit the axis"
      elseif v.is_meta then
         torch.raise 'scales that map_location = "meta" does not read'
      end
   end
   local scale, zero = p.scale, p.zero_point
   if not scale:is_floating_point() or not (scale:gt(0) & scale:isfinite()):all():item() then
      torch.raise "expected scales above 0"
   elseif zero:is_floating_point() or not (zero:ge(low) & zero:le(high)):all():item() then
      torch.raise "a zero point is out of range"
   end
   p.scale, p.zero_point = scale:double(), zero:long()
end

local function check_single(p, low, high)
   local scale, zero = p.scale, p.zero_point
   if type(scale) ~= "number" or not (scale > 0 and scale < math.huge) then
      torch.raise "expected a scale above 0"
   elseif math.type(zero) ~= "integer" or zero < low or zero > high then
      torch.raise "the zero point is out of range"
   end
end

--- Rebuilds a quantized tensor from the parts in a file. Returns nil and a message if they do not
--- fit together.
---@param p {integers: Tensor, dtype: string, scale: number|Tensor, zero_point: integer|Tensor,
--- axis: integer?}
---@return ao.QuantizedTensor?
---@return string? message
function M.rebuild(p)
   local made, x = pcall(function()
      local dtype = integers_of[p.dtype]
      if not torch.is_tensor(p.integers) or p.integers.dtype ~= dtype then
         torch.raise "the integers have another dtype"
      end
      local info = torch.iinfo(dtype)
      if p.axis ~= nil then check_channels(p, info.min, info.max)
      else check_single(p, info.min, info.max) end
      return require "tlua.ao.quantized"._of_integers(p.integers, p.dtype, p.scale, p.zero_point,
         p.axis)
   end)
   if made then return x end
   return nil, "a malformed quantized tensor: " .. tostring(x):gsub("^.-:%d+: ", "")
end

return M
