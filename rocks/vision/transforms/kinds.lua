-- kinds.lua - the kinds of values that transforms take: images (including plain tensors), videos,
-- masks, boxes and keypoints. A functional transform has a function, called kernel, for each kind
-- of value that it supports.

local torch = require "tlua"
local args = require "tlua.args"
local class = require "tlua.class"

local tv_tensors = require "tlua.vision.tv_tensors"

local M = {}

local prefix <const> = "vision.transforms.v2.functional."

-- For each functional transform, a table that maps kinds of values to kernels.
local kernels_of = {}

--- Returns the kind of a value: "image", "video", "mask", "boxes" or "keypoints"; nil for other
--- values.
---@param value any
---@return string?
function M.of(value)
   if torch.is_tensor(value) then return "image" end
   local is_ours = type(value) == "table" and class.isinstance(value, tv_tensors._TVTensor)
   return is_ours and value.kind or nil
end

--- Returns whether a functional transform is defined for a value.
---@param name string  the function's name
---@param value any
---@return boolean
function M.has(name, value)
   local kind = M.of(value)
   local kernels = kernels_of[name]
   return kind ~= nil and kernels ~= nil and kernels[kind] ~= nil
end

local names <const> = {image = "an image", video = "a video", mask = "a mask",
   boxes = "bounding boxes", keypoints = "keypoints"}

local function expected(kernels)
   local list = {}
   for _, kind in ipairs {"image", "video", "mask", "boxes", "keypoints"} do
      if kernels[kind] then list[#list + 1] = names[kind] end
   end
   local last = table.remove(list)
   return #list == 0 and last or table.concat(list, ", ") .. " or " .. last
end

--- Defines a functional transform.
---@param target table  the table to which the function is added
---@param name string
---@param parameters string  the parameters after `inpt`, in the notation of signatures
---@param kernels table<string, function>  maps kinds to functions kernel(data, a, title, value),
--- which return a tensor, and for boxes and keypoints also the changed fields; by default videos
--- have the kernel for images
function M.define(target, name, parameters, kernels)
   local title = prefix .. name
   local take = args.signature(("%s(inpt: any%s)"):format(title,
      parameters == "" and "" or ", " .. parameters))
   kernels.video = kernels.video or kernels.image
   kernels_of[name] = kernels
   target[name] = function(...)
      local a = take(...)
      local value = a.inpt
      local kernel = kernels[M.of(value)]
      if not kernel then args.refuse(title, "inpt", expected(kernels), value) end
      if torch.is_tensor(value) then return (kernel(value, a, title)) end
      local data, changes = kernel(value.data, a, title, value)
      return tv_tensors._like(value, data, changes)
   end
end

-- The kernel of to_dtype for masks, boxes and keypoints, which converts their values without
-- scaling.
local function to_dtype(data, a) return data:to(a.dtype) end

--- Extends functions of plain images to the classes Image and Video of torch.vision.tv_tensors. The
--- function to_dtype also accepts masks, boxes and keypoints, but does not scale their values.
---@param target table  the table with the functions
---@param list string  their names
function M.lift(target, list)
   for name in list:gmatch "%S+" do
      local title, plain = prefix .. name, target[name]
      local kernels = {image = true, video = true}
      kernels_of[name] = kernels
      if name == "to_dtype" then
         kernels.mask, kernels.boxes, kernels.keypoints = to_dtype, to_dtype, to_dtype
      end
      target[name] = function(inpt, ...)
         local options = select("#", ...) == 0 and type(inpt) == "table" and not getmetatable(inpt)
            and inpt or nil
         local value = options and options.inpt or inpt
         local kind = not torch.is_tensor(value) and M.of(value)
         if not kind then return plain(inpt, ...) end
         local kernel = kernels[kind]
         if not kernel then args.refuse(title, "inpt", expected(kernels), value) end
         if kernel ~= true then
            local dtype = options and options.dtype or ...
            if type(dtype) == "table" then dtype = dtype.dtype end
            return tv_tensors._like(value, kernel(value.data, {dtype = dtype or "float32"}))
         end
         if not options then return tv_tensors._like(value, plain(value.data, ...)) end
         local copy = {}
         for key, option in pairs(options) do copy[key] = option end
         copy.inpt = value.data
         return tv_tensors._like(value, plain(copy))
      end
   end
end

-- Raises an error if a tensor has fewer dimensions than an image, and returns the tensor otherwise.
function M.check(title, image)
   if image:dim() < 3 then
      args.refuse(title, "inpt", "an image of shape (..., C, H, W)", image)
   end
   return image
end

-- Raises an error if a tensor is not an image of real numbers, and returns the tensor otherwise.
function M.check_real(title, image)
   if image:is_complex() then args.refuse(title, "inpt", "an image of real numbers", image) end
   return M.check(title, image)
end

--- Calls fn with the image as a batch (N, C, H, W), and restores the leading dimensions in the
--- result.
---@param image Tensor
---@param fn fun(batch: Tensor): Tensor
---@return Tensor
function M.as_batch(image, fn)
   local shape = {table.unpack(image.shape)}
   local n = 1
   for i = 1, #shape - 3 do n = n * shape[i] end
   local result = fn(image:reshape(n, table.unpack(shape, #shape - 2)))
   local full = table.move(shape, 1, #shape - 3, 1, {})
   table.move({table.unpack(result.shape, 2)}, 1, 3, #full + 1, full)
   return result:reshape(full)
end

--- Returns a kernel for masks. It calls the kernel for images, for which a mask (H, W) becomes an
--- image of one channel.
---@param kernel function
---@return function
function M.masked(kernel)
   return function(mask, a, title, value)
      if mask:dim() >= 3 then return (kernel(mask, a, title, value)) end
      return kernel(mask:unsqueeze(1), a, title, value):squeeze(1)
   end
end

-- Returns two sizes of at least 1 from an argument, which is a number or a list of one or two
-- numbers.
function M._pair(title, name, value)
   if type(value) == "table" and #value == 1 then value = value[1] end
   local list = args.expand(title, name, value, 2)
   for i = 1, 2 do
      if list[i] < 1 then args.refuse(title, name, "sizes of at least 1", list[i]) end
   end
   return list[1], list[2]
end

return M
