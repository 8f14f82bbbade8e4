-- Lazy.lua - layers that get their number of input features or channels from the first input, or
-- from a loaded state, and then become ordinary layers.

local torch = require "tlua"
local args = require "tlua.args"
local class = require "tlua.class"
local BatchNorm = require "tlua.nn.modules.BatchNorm"
local Conv = require "tlua.nn.modules.Conv"
local ConvTranspose = require "tlua.nn.modules.ConvTranspose"
local Linear = require "tlua.nn.modules.Linear"
local Uninitialized = require "tlua.nn.Uninitialized"

local M = {}

-- The methods that lazy layers have in addition to the methods of their ordinary class.
local Lazy = {}

--- Returns whether parameters or buffers have no shape yet.
---@return boolean
function Lazy:has_uninitialized_params()
   for _, name in ipairs(self._lazy_names) do
      if Uninitialized.is_lazy(self[name]) then return true end
   end
   return false
end

--- Reads the number of features or channels from an input, and allocates and initialises the
--- parameters, unless a state has been loaded.
---@param input Tensor
function Lazy:initialize_parameters(input)
   local name = torch.type(self)
   if not torch.is_tensor(input) then args.refuse(name, "input", "a tensor", input) end
   local n = self:_lazy_size(input)
   local waits = self:has_uninitialized_params()
   if waits then
      self:_check_lazy(n)
      for field, shape in pairs(self:_lazy_shapes(n)) do
         if Uninitialized.is_lazy(self[field]) then
            Uninitialized.materialize(self[field], shape)
         end
      end
   end
   self[self._lazy_field] = n
   if waits then self:reset_parameters() end
end

function Lazy:forward(input, ...)
   self:initialize_parameters(input)
   local ordinary = self._ordinary
   self._lazy_names = nil
   setmetatable(self, ordinary)
   return ordinary.forward(self, input, ...)
end

-- Raises an error if n, the number of features or channels of the first input, does not fit the
-- options. Classes with such options override this method.
function Lazy:_check_lazy(n) end -- luacheck: no unused args

-- Defines nn.Lazy<name>, a layer that becomes an instance of Base; `options` are Base's arguments
-- without that size. `o.field` is the name of the field for the size that is not known yet.
-- o.size(self, input) returns that size, and o.shapes(self, size) returns the shapes of the
-- parameters and buffers that depend on it. If `o.check` is given, it replaces the method
-- _check_lazy.
local function define(name, Base, options, o)
   local full_name = "nn.Lazy" .. name
   local signature = args.signature(("%s(%s)"):format(full_name, options))
   local Class, parent = class.class(full_name, Base)
   for method, fn in pairs(Lazy) do Class[method] = fn end
   Class._ordinary, Class._lazy_field = Base, o.field
   Class._lazy_size, Class._lazy_shapes = o.size, o.shapes
   Class._check_lazy = o.check or Lazy._check_lazy

   function Class:__init(...)
      local a = signature(...)
      a[o.field] = 0
      parent.__init(self, a)
      local names = {}
      for field in pairs(self:_lazy_shapes(0)) do
         if self[field] then
            local buffer = field:find "^running_"
            local make = Uninitialized[buffer and "UninitializedBuffer" or "UninitializedParameter"]
            self[field] = make {device = a.device, dtype = a.dtype}
            names[#names + 1] = field
         end
      end
      self._lazy_names = names
   end

   M["Lazy" .. name] = Class
end

--- An nn.Linear whose in_features is the size of the last dimension of its first input. Before the
--- first input its weight has no shape; loading a state also sets the shape. After the first call
--- the module is an nn.Linear.
---
---     local layer = torch.nn.LazyLinear(2)
---     layer(torch.zeros(8, 5)) -- the first input decides in_features
---     print(layer)
---     --> Linear(in_features=5, out_features=2, bias=true)
---@class nn.LazyLinear: nn.Linear
---@field in_features integer  0 before the first input
define("Linear", Linear, [[out_features: count, bias: boolean = true, device: device?,
   dtype: string?]], {
   field = "in_features",
   size = function(self, input)
      if input:dim() == 0 then
         args.refuse(torch.type(self), "input", "a tensor of at least 1 dimension", input)
      end
      return input:size(-1)
   end,
   shapes = function(self, n)
      return {weight = {self.out_features, n}}
   end,
})

-- Returns a function that returns the number of channels of an input (N, C, ...) or (C, ...) with n
-- dimensions after the channels.
local function channels(n)
   return function(self, input)
      if input:dim() ~= n + 1 and input:dim() ~= n + 2 then
         args.refuse(torch.type(self), "input",
            ("a tensor of %d or %d dimensions"):format(n + 1, n + 2), input)
      end
      return input:size(-n - 1)
   end
end

local function check_groups(self, n)
   if n % self.groups ~= 0 then
      torch.raise(("%s: input: expected a multiple of %d channels, which is groups, got %d"):format(
         torch.type(self), self.groups, n))
   end
end

--- A convolution whose in_channels is the number of channels of its first input, (N, C, ...) or (C,
--- ...). The number of channels must be a multiple of `groups`. After the first call the module is
--- the ordinary convolution.
---
---     local layer = torch.nn.LazyConv2d(8, 3)
---     layer(torch.zeros(1, 3, 9, 9))
---     print(table.unpack(layer.weight.shape))
---     --> 8	3	3	3
---@class nn.LazyConv1d: nn.Conv1d
---@class nn.LazyConv2d: nn.Conv2d
---@class nn.LazyConv3d: nn.Conv3d
---@class nn.LazyConvTranspose1d: nn.ConvTranspose1d
---@class nn.LazyConvTranspose2d: nn.ConvTranspose2d
---@class nn.LazyConvTranspose3d: nn.ConvTranspose3d
---@field in_channels integer  0 before the first input

for n = 1, 3 do
   define(("Conv%dd"):format(n), Conv[("Conv%dd"):format(n)], [[out_channels: count,
      kernel_size: integers, stride: integers = 1, padding: integers|string = 0,
      dilation: integers = 1, groups: count = 1, bias: boolean = true,
      padding_mode: string = 'zeros', device: device?, dtype: string?]], {
      field = "in_channels", size = channels(n), check = check_groups,
      shapes = function(self, c)
         return {weight = {self.out_channels, c // self.groups, table.unpack(self.kernel_size)}}
      end,
   })
   define(("ConvTranspose%dd"):format(n), ConvTranspose[("ConvTranspose%dd"):format(n)],
      [[out_channels: count, kernel_size: integers, stride: integers = 1, padding: integers = 0,
      output_padding: integers = 0, groups: count = 1, bias: boolean = true,
      dilation: integers = 1, device: device?, dtype: string?]], {
      field = "in_channels", size = channels(n), check = check_groups,
      shapes = function(self, c)
         return {weight = {c, self.out_channels // self.groups, table.unpack(self.kernel_size)}}
      end,
   })
end

--- A normalisation whose num_features is the number of channels of its first input. After the
--- first call the module is the ordinary normalisation. The options affine and track_running_stats
--- are true by default, for instance norms too.
---
---     local layer = torch.nn.LazyBatchNorm1d()
---     layer(torch.randn(4, 6))
---     print(layer.num_features)
---     --> 6
---@class nn.LazyBatchNorm1d: nn.BatchNorm1d
---@class nn.LazyBatchNorm2d: nn.BatchNorm2d
---@class nn.LazyBatchNorm3d: nn.BatchNorm3d
---@class nn.LazyInstanceNorm1d: nn.InstanceNorm1d
---@class nn.LazyInstanceNorm2d: nn.InstanceNorm2d
---@class nn.LazyInstanceNorm3d: nn.InstanceNorm3d
---@field num_features integer  0 before the first input

for _, kind in ipairs {"BatchNorm", "InstanceNorm"} do
   for n = 1, 3 do
      local name = ("%s%dd"):format(kind, n)
      define(name, BatchNorm[name], [[eps: number = 1e-5, momentum: number|boolean = 0.1,
         affine: boolean = true, track_running_stats: boolean = true, device: device?,
         dtype: string?, bias: boolean = true]], {
         field = "num_features",
         size = function(self, input)
            if kind == "BatchNorm" then
               self:check_input(input, self.ranks)
               return input:size(2)
            end
            self:check_input(input, {self.rank - 1, self.rank})
            return input:size(1 - self.rank)
         end,
         shapes = function(_, c)
            return {weight = {c}, bias = {c}, running_mean = {c}, running_var = {c}}
         end,
      })
   end
end

return M
