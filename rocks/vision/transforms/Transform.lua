-- Transform.lua - the base class of transforms. A transform is called with a sample, which consists
-- of values and of tables of values at any depth. Each call draws random parameters once, and
-- applies them to all images, videos, masks, boxes and keypoints of the sample. Other values are
-- returned unchanged.

local torch = require "tlua"
local args = require "tlua.args"
local class = require "tlua.class"

local kinds = require "tlua.vision.transforms.kinds"

--- The base class of transforms. A derived class defines `transform(value, params)`, which is
--- called with each image, video, mask, BoundingBoxes or KeyPoints of a sample. It may also define
--- `make_params(values)`, which returns the parameters for all values of a sample, and
--- `check_inputs(values)`. A plain tensor is an image if it is the first one in the sample and the
--- sample has no Image or Video. The values of a table are taken by position, and then in
--- alphabetical order of their keys.
---
---     local T = torch.vision.transforms.v2
---     local Half = torch.class("Half", T.Transform)
---     function Half:make_params() return torch.rand(1):item() < 2 and 0.5 end
---     function Half:transform(value, factor) return value * factor end
---     print(Half()(torch.ones(1, 1, 2), "label"))
---     --> tensor([[[0.5000, 0.5000]]])	label
---@class vision.transforms.v2.Transform: nn.Module
---@overload fun(...): nn.Module
local Transform = class.class("vision.transforms.v2.Transform", torch.nn.Module)

local function is_plain(value) return type(value) == "table" and not getmetatable(value) end

-- Returns the keys of a table: first the positions, then the names in alphabetical order.
local function keys_of(value)
   local keys, n = {}, #value
   for key in next, value do
      if not (math.type(key) == "integer" and key >= 1 and key <= n) then keys[#keys + 1] = key end
   end
   table.sort(keys, function(a, b) return tostring(a) < tostring(b) end)
   local list = {}
   for i = 1, n do list[i] = i end
   return table.move(keys, 1, #keys, n + 1, list)
end

local function collect(value, list)
   if not is_plain(value) then
      list.n = list.n + 1
      list[list.n] = value
      return
   end
   for _, key in ipairs(keys_of(value)) do collect(value[key], list) end
end

local function rebuild(value, list)
   if not is_plain(value) then
      list.at = list.at + 1
      return list[list.at]
   end
   local copy = {}
   for _, key in ipairs(keys_of(value)) do copy[key] = rebuild(value[key], list) end
   return copy
end

--- Returns all values in a sample, including those in nested tables, as one list.
---@param sample table  packed arguments, with their number in `n`
---@return table list  the values, with their number in the field `n`
function Transform._flatten(sample)
   local list = {n = 0}
   for i = 1, sample.n do collect(sample[i], list) end
   return list
end

--- Returns a copy of a sample in which the values are replaced by those of a list, in order.
---@param sample table
---@param list table  a list as _flatten returns it
---@return any ...
function Transform._unflatten(sample, list)
   local result = {n = sample.n}
   list.at = 0
   for i = 1, sample.n do result[i] = rebuild(sample[i], list) end
   return table.unpack(result, 1, result.n)
end

-- Returns a list with a boolean for each value, which tells whether the value is transformed.
function Transform:_needed(list)
   local takes, plain_taken = self.kinds, false
   for i = 1, list.n do
      local kind = not torch.is_tensor(list[i]) and kinds.of(list[i])
      if kind == "image" or kind == "video" then plain_taken = true end
   end
   local needs = {}
   for i = 1, list.n do
      local kind = kinds.of(list[i])
      needs[i] = kind ~= nil and (not takes or takes[kind] == true)
      if needs[i] and torch.is_tensor(list[i]) then
         needs[i] = not plain_taken
         plain_taken = true
      end
   end
   return needs
end

--- Raises an error if the transform cannot handle a sample. The default method does nothing.
---@param values table  all values of the sample, with their number in `n`
function Transform:check_inputs(values) self:_check(values) end

--- Draws the random parameters for a sample. The default method returns an empty table.
---@param values any[]  the values that will be transformed
---@return any params
function Transform:make_params(values) return self:_draw(values) end

--- Returns a transformed value. Derived classes must define this method.
---@param value any  an image, a video, a mask, bounding boxes or keypoints
---@param params any  the result of make_params
---@return any
function Transform:transform(value, params) return self:_apply(value, params) end

Transform._options = {}

-- The classes of this package override these three methods, which the public methods above call.
function Transform._check() end
function Transform._draw() return {} end
function Transform:_apply()
   torch.raise(("%s: the class has no method transform"):format(torch.type(self)))
end

function Transform:forward(...)
   local sample = table.pack(...)
   local list = self._flatten(sample)
   self:check_inputs(list)
   if self.is_random and torch.rand(1):item() >= self.p then return ... end
   local needs, chosen = self:_needed(list), {}
   for i = 1, list.n do
      if needs[i] then chosen[#chosen + 1] = list[i] end
   end
   local params = self:make_params(chosen)
   for i = 1, list.n do
      if needs[i] then list[i] = self:transform(list[i], params) end
   end
   return self._unflatten(sample, list)
end

-- Applies a functional transform to a value. Returns the value unchanged if the transform is not
-- defined for its kind.
function Transform._call(name, value, ...)
   local functional = require "tlua.vision.transforms.functional"
   local fn = functional[name]
   if not kinds.has(name, value) then return value end
   return fn(value, ...)
end

--- Returns the common height and width of a sample's values.
---@param values table
---@return integer height
---@return integer width
function Transform:_size_of(values)
   local functional = require "tlua.vision.transforms.functional"
   local height, width
   for _, value in ipairs(values) do
      local h, w = table.unpack(functional.get_size(value))
      if height and (h ~= height or w ~= width) then
         torch.raise(("%s: expected values of one size in a sample, got %d x %d and %d x %d pixels")
            :format(torch.type(self), height, width, h, w))
      end
      height, width = h, w
   end
   if not height then
      torch.raise(torch.type(self)
         .. ": expected an image, video, mask, bounding boxes or keypoints in the sample")
   end
   return height, width
end

--- Returns the number of channels, the height and the width of a sample's image.
---@param values table
---@return integer channels
---@return integer height
---@return integer width
function Transform:_chw_of(values)
   for _, value in ipairs(values) do
      local kind = kinds.of(value)
      if kind == "image" or kind == "video" then
         local data = torch.is_tensor(value) and value or value.data
         kinds.check(torch.type(self), data)
         return data:size(-3), data:size(-2), data:size(-1)
      end
   end
   torch.raise(torch.type(self) .. ": expected an image or a video in the sample")
end

--- Returns the fill value for `value` from the option `fill`. The option is a number, a list of
--- numbers, a table of these whose keys are classes of torch.vision.tv_tensors, torch.Tensor or
--- "others", or false for no fill value.
---@param fill any
---@param value any
---@return number|number[]|nil
function Transform._fill_for(fill, value)
   if type(fill) == "table" and fill[1] == nil then
      local own = fill[torch.is_tensor(value) and torch.Tensor or getmetatable(value)]
      if own == nil then own = fill.others end
      fill = own
   end
   return fill or nil
end

local is_scalar <const> = {number = true, string = true, boolean = true}

-- Returns the text of an option that is a number, a string, a boolean or a list of these. Returns
-- nil for other values.
local function text_of(value)
   if is_scalar[type(value)] then return tostring(value) end
   if type(value) ~= "table" or getmetatable(value) or #value == 0 then return nil end
   local list = {}
   for i, item in ipairs(value) do
      if not is_scalar[type(item)] then return nil end
      list[i] = tostring(item)
   end
   return "{" .. table.concat(list, ", ") .. "}"
end

-- Returns text for printing: a line with the options other than transforms, followed by the
-- transforms of a list, one on each line.
local function lines_of(transforms, options)
   local lines = {options ~= "" and "  " .. options or nil}
   for i, transform in ipairs(transforms) do
      local text = type(transform) == "table" and tostring(transform) or "a function"
      lines[#lines + 1] = ("  (%d): %s"):format(i, (text:gsub("\n", "\n  ")))
   end
   return "\n" .. table.concat(lines, "\n") .. "\n"
end

function Transform:extra_repr()
   local list, transforms = {}, nil
   for _, name in ipairs(self._options) do
      local value = self[name]
      local text = text_of(value)
      if name == "transforms" and type(value) == "table" then
         transforms = value
      elseif text then
         list[#list + 1] = name .. "=" .. text
      end
   end
   local options = table.concat(list, ", ")
   return transforms and lines_of(transforms, options) or options
end

--- Defines the constructor of a class. The arguments become fields of the object.
---@param Class table
---@param parameters string  the parameters, in the notation of args.signature
---@param check? fun(title: string, a: table)  may change arguments or raise errors about them
function Transform._define(Class, parameters, check)
   local title = Class.__name
   local take = args.signature(title .. "(" .. parameters .. ")")
   Class._options = {} -- the names of the parameters, for printing
   for option in parameters:gmatch "([%w_]+):" do table.insert(Class._options, option) end
   function Class:__init(...)
      local a = take(...)
      if check then check(title, a) end
      for key, value in pairs(a) do self[key] = value end
   end
end

function Transform._check_p(title, a)
   if not (a.p >= 0 and a.p <= 1) then args.refuse(title, "p", "a number from 0 to 1", a.p) end
end

--- Defines a class and adds it to a module. If the constructor has a parameter p, the transform is
--- applied with probability p.
---@param module table
---@param Class table
---@param parameters string  the parameters, in the notation of args.signature
---@param transform fun(self: table, value: any, params: table): any
---@param make_params? fun(self: table, values: table): table
---@param check? fun(title: string, a: table)  may change arguments or raise errors about them
function Transform._define_in(module, Class, parameters, transform, make_params, check)
   local is_random = parameters:find "%f[%w_]p: number = " ~= nil
   Transform._define(Class, parameters, function(title, a)
      if is_random then Transform._check_p(title, a) end
      if check then check(title, a) end
   end)
   Class.is_random, Class._apply = is_random, transform
   if make_params then Class._draw = make_params end
   module[Class.__name:match "[^.]+$"] = Class
end

return Transform
