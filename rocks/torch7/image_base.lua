-- image_base.lua - functions that the files of the package image have in common.

local tlua = require "tlua"
local args = require "tlua.args"
local types = require "tlua.torch7.types"

local field, methods = types.field, types.methods

local M = {image = {}}

function M.shape(x) return field(x, "shape") end
M.tag = types.tag

--- Converts an image to a batch of one image (1, channels, height, width) in float64, and runs fn
--- on it. The result gets the number of dimensions and the type of the image.
function M.as_batch(src, fn)
   local n, x = #field(src, "shape"), tlua.detach(src)
   if n < 2 or n > 4 then
      tlua.raise(("image: expected an image of 2 or 3 dimensions, got %d"):format(n))
   end
   while #field(x, "shape") < 4 do x = tlua.unsqueeze(x, 1) end
   local y = fn(methods.to(x, "float64"))
   for _ = n, 3 do y = tlua.squeeze(y, 1) end
   local dtype = field(src, "dtype")
   if not tlua.is_floating_point(src) then y = tlua.round(y) end
   return types.tag(methods.to(y, dtype))
end

--- Returns a number of pixels without its fraction, which Torch7 ignores, too. Raises an error that
--- names the function and the argument if the value is not a finite number.
function M.position(name, what, value)
   local size = type(value) == "number" and math.tointeger(math.abs(value) // 1)
   if not size then args.refuse("image." .. name, what, "a finite number", value) end
   return value < 0 and -size or size
end

--- Lets the function M.image[name], which takes n tensors, take one more tensor before them, which
--- receives the result.
function M.take_result(name, n)
   local fn = M.image[name]
   M.image[name] = function(...)
      local count = 0
      for i = 1, n + 1 do
         if not types.is_tensor((select(i, ...))) then break end
         count = i
      end
      if count < n then
         tlua.raise(("image.%s: argument %d: expected a tensor, got %s"):format(name, count + 1,
            type((select(count + 1, ...)))))
      end
      if count == n then return fn(...) end
      local into = ...
      local made = fn(select(2, ...))
      return into:resize(made:size()):copy(made)
   end
end

--- Reads arguments that are given as fn{name = value}, or as fn(value, ...) in the order of
--- `names`. Returns them as a table.
function M.by_name(name, names, ...)
   local first = ...
   local known, options = {}, {}
   for word in names:gmatch "%S+" do known[#known + 1] = word end
   local is_table = select("#", ...) == 1 and type(first) == "table" and not types.is_tensor(first)
      and first[1] == nil
   if not is_table then
      for i, word in ipairs(known) do options[word] = (select(i, ...)) end
      return options
   end
   for key, value in pairs(first) do
      local found = false
      for _, word in ipairs(known) do found = found or word == key end
      if not found then
         tlua.raise(("image.%s: there is no option '%s'; the options are %s"):format(name,
            tostring(key), table.concat(known, ", ")))
      end
      options[key] = value
   end
   return options
end

return M
