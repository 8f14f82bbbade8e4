-- parametrize.lua - torch.nn.utils.parametrize: parameters or buffers that modules compute from
-- stored tensors whenever they are read:
--
--    local Symmetric = torch.class("Symmetric", nn.Module)
--    function Symmetric:forward(x) return x:triu() + x:triu(1):t() end
--    function Symmetric:right_inverse(a) return a:triu() end
--    parametrize.register_parametrization(layer, "weight", Symmetric())
--
-- The module's class is replaced by a derived class, which looks fields up among the
-- parametrizations first. All parametrized modules of one class share one derived class.

local torch = require "tlua"
local args = require "tlua.args"
local class = require "tlua.class"
local members = require "tlua.nn.members"
local Module = require "tlua.nn.modules.Module"
local ModuleDict = require "tlua.nn.modules.ModuleDict"
local ModuleList = require "tlua.nn.modules.ModuleList"
local Parameter = require "tlua.nn.Parameter"
local Uninitialized = require "tlua.nn.Uninitialized"
local scopes = require "tlua.scope"

local M = {}

local function same_shape(a, b)
   return table.concat(a.shape, ",") == table.concat(b.shape, ",")
end

-- Raises an error unless the result of a parametrization is a tensor with the shape and the dtype
-- of the tensor that it replaces.
local function check(what, value, tensor)
   if not torch.is_tensor(value) then
      args.refuse("register_parametrization", what, "a tensor", value)
   end
   if value.dtype ~= tensor.dtype or not same_shape(value, tensor) then
      torch.raise(("register_parametrization: %s: expected %s, got %s; {unsafe = true} allows it")
         :format(what, args.describe(tensor), args.describe(value)))
   end
end

-- Stores a tensor as a parameter if it replaces a parameter, otherwise as a buffer.
local function store(module, name, value, original)
   if original.is_parameter then
      module[name] = Parameter(value, {requires_grad = original.requires_grad})
   else
      module:register_buffer(name, value:detach())
   end
end

-- Assigns a value to a stored tensor, which stays the same object.
local function set(tensor, value)
   if rawequal(tensor, value) then return end
   local _ <close> = torch.no_grad()
   if same_shape(tensor, value) then
      tensor:copy_(value:clone()) -- the value is cloned, because it may be a view of the tensor
   else
      tensor.grad = nil
      tensor.data = value:detach()
   end
end

-- Returns the results of a right_inverse as a list. A right_inverse returns several tensors, or one
-- list of them.
local function pack(...)
   local list = {...}
   if #list == 1 and type(list[1]) == "table" and not getmetatable(list[1]) then list = list[1] end
   return list
end

--- The parametrizations of one tensor, in the order in which they are applied, and their stored
--- arguments: `original`, or `original0`, `original1`, ... if the first parametrization takes
--- several.
---
---     local nn = torch.nn
---     local layer = nn.utils.parametrizations.weight_norm(nn.Linear(3, 2))
---     local list = layer.parametrizations.weight
---     print(#list, table.unpack(list.original1.shape))
---     --> 1	2	3
---@class nn.utils.parametrize.ParametrizationList: nn.ModuleList
---@field original Tensor?  the parameter that is trained
---@field unsafe boolean  whether the shape and the dtype may change
local ParametrizationList = class.class("nn.ParametrizationList", ModuleList)
M.ParametrizationList = ParametrizationList

-- Returns the tensors to store so that the modules compute `value`. A module without right_inverse
-- is skipped; if `must` is true, it is an error instead.
local function invert(list, value, must)
   local values = {value}
   for i = #list, 1, -1 do
      if list[i].right_inverse then
         values = pack(list[i]:right_inverse(table.unpack(values)))
      elseif must then
         torch.raise(("the parametrization %s has no right_inverse, so that nothing can be "
            .. "assigned"):format(torch.type(list[i])))
      end
   end
   for i = 1, math.max(#values, 1) do
      if not torch.is_tensor(values[i]) then
         args.refuse("right_inverse", "result " .. i, "a tensor", values[i])
      end
   end
   return values
end

---@param modules nn.Module[]
---@param original Tensor
---@param unsafe? boolean
function ParametrizationList:__init(modules, original, unsafe)
   ModuleList.__init(self, modules)
   self.unsafe = unsafe or false
   local _ <close> = torch.no_grad()
   local values = invert(self, original)
   self.ntensors, self.is_tensor = #values, #values == 1
   if self.is_tensor then
      local value = values[1]
      if value.dtype ~= original.dtype or value.device ~= original.device then
         args.refuse("register_parametrization", "the result of right_inverse",
            ("%s tensor on %s"):format(args.with_article(original.dtype), original.device), value)
      end
      if original.is_parameter then
         self.original = original -- `original` stays the same object, because optimizers hold it
      else
         self:register_buffer("original", original)
      end
   else
      for i, value in ipairs(values) do store(self, "original" .. i - 1, value, original) end
   end
   if not self.unsafe then
      check("the result", self:preview(values), original)
   end
   if self.is_tensor then set(original, values[1]) end
end

--- Returns the result that the modules compute from these tensors, without storing the tensors.
---@param values Tensor[]
---@return Tensor
function ParametrizationList:preview(values)
   local value = self[1](table.unpack(values))
   for i = 2, #self do value = self[i](value) end
   return value
end

-- Returns the list of the stored tensors: `original`, or `original0`, `original1` and so on.
local function stored(self)
   if self.is_tensor then return {self.original} end
   local values = {}
   for i = 1, self.ntensors do values[i] = self["original" .. i - 1] end
   return values
end

--- Computes the parametrized tensor.
---@return Tensor
function ParametrizationList:forward()
   return self:preview(stored(self))
end

--- Stores tensors such that the parametrized tensor equals `value`.
---@param value Tensor
function ParametrizationList:right_inverse(value)
   local _ <close> = torch.no_grad()
   if not torch.is_tensor(value) then args.refuse("right_inverse", "value", "a tensor", value) end
   local values, originals = invert(self, value, true), stored(self)
   if #values ~= #originals then
      torch.raise(("right_inverse: expected %d tensors, got %d"):format(#originals, #values))
   end
   for i, original in ipairs(originals) do
      if values[i].dtype ~= original.dtype then
         args.refuse("right_inverse", "result " .. i,
            args.with_article(original.dtype) .. " tensor", values[i])
      end
   end
   for i, original in ipairs(originals) do
      set(original, values[i])
   end
end

-- Reading and assigning -----------------------------------------------------------------------

-- Maps each coroutine in which `cached` is active to {the number of nested calls of `cached`, the
-- cached tensors}.
local caches = setmetatable({}, {__mode = "k"})

local function this_thread()
   return coroutine and coroutine.running() or caches
end

-- Returns the ParametrizationList of the field `name` of a module, or nil if the field has none.
local function list_of(module, name)
   local lists = rawget(module, "parametrizations")
   local list = lists and rawget(lists, name)
   return list and getmetatable(list) == ParametrizationList and list or nil
end

local function value_of(list)
   local own = next(caches) and caches[this_thread()]
   if not own then return list() end
   own.values[list] = own.values[list] or list()
   return own.values[list]
end

local derived = setmetatable({}, {__mode = "k"})

-- Returns the subclass of `cls` to which all parametrized modules of class `cls` belong. It
-- computes parametrized fields when they are read.
local function parametrized(cls)
   if derived[cls] then return derived[cls] end
   local name = cls.__name:gsub("[^.]*$", "Parametrized%0", 1)
   local Class = class.class(name, cls)
   local index, newindex = cls.__index, cls.__newindex
   Class.plain_class = cls
   function Class:__index(field)
      local list = list_of(self, field)
      if list then return value_of(list) end
      local own = rawget(Class, field)
      if own ~= nil then return own end
      if type(index) == "function" then return index(self, field) end
      return index[field]
   end
   function Class:__newindex(field, value)
      local list = list_of(self, field)
      if list then return list:right_inverse(value) end
      return newindex(self, field, value)
   end
   derived[cls] = Class
   return Class
end

--- Caches parametrized tensors, which are otherwise computed at each read. The cache lasts while fn
--- runs, and fn's results are returned. Without fn, it lasts until a block ends: `local _ <close> =
--- parametrize.cached()`.
---@param fn? function
---@return any ...
function M.cached(fn)
   scopes.check_function("nn.utils.parametrize.cached", fn)
   local thread = this_thread()
   local own = caches[thread] or {depth = 0, values = {}}
   local entered = false
   return scopes.run(function()
      own.depth, caches[thread], entered = own.depth + 1, own, true
   end, function()
      if not entered then return end
      own.depth, entered = own.depth - 1, false
      if own.depth == 0 then caches[thread] = nil end
   end, fn)
end

-- Registering ---------------------------------------------------------------------------------

local take_register = args.signature [[register_parametrization(module: table, tensor_name: string,
   parametrization: table, unsafe: boolean = false)]]

-- Raises an error if another parametrization would change the shape or the dtype.
local function check_further(module, name, parametrization)
   local before = module[name]
   local after = parametrization(before)
   check("the result", after, before)
   if parametrization.right_inverse then
      check("the result of right_inverse", parametrization:right_inverse(after), before)
   end
end

local function check_module(name, what, value)
   if not class.isinstance(value, Module) then args.refuse(name, what, "a module", value) end
end

--- Moves the tensor `module[tensor_name]` to `module.parametrizations[tensor_name].original`. From
--- then on, reading `module[tensor_name]` calls the parametrization with that tensor. If a second
--- parametrization is registered, it is applied to the result of the first one. If the
--- parametrization has a method `right_inverse(value)`, which returns the tensor or tensors to
--- store so that the result is `value`, then `module[tensor_name]` can be assigned. With `{unsafe =
--- true}` the result may have another shape and dtype.
---@param module nn.Module
---@param tensor_name string  the name of a parameter or buffer
---@param parametrization nn.Module
---@param options? {unsafe: boolean}
---@return nn.Module module
function M.register_parametrization(...)
   local a = take_register(...)
   local module, name = a.module, a.tensor_name
   check_module("register_parametrization", "module", module)
   check_module("register_parametrization", "parametrization", a.parametrization)
   a.parametrization:train(module.training)
   local list = list_of(module, name)
   if list then
      if not a.unsafe then check_further(module, name, a.parametrization) end
      list:append(a.parametrization)
      list.unsafe = list.unsafe or a.unsafe
      return module
   end
   local original = rawget(module, name)
   if Uninitialized.is_lazy(original) then
      torch.raise(("register_parametrization: %s of %s waits for its shape; call the module "
         .. "with an input before"):format(name, torch.type(module)))
   end
   local is_member = torch.is_tensor(original)
      and (original.is_parameter or members.buffer_kind(module, name, original))
   if not is_member then
      torch.raise(("register_parametrization: %s has no parameter or buffer %s"):format(
         torch.type(module), name))
   end
   list = ParametrizationList({a.parametrization}, original, a.unsafe)
   list:train(module.training)
   rawset(module, name, nil)
   if not rawget(module, "parametrizations") then
      module.parametrizations = ModuleDict()
      setmetatable(module, parametrized(getmetatable(module)))
   end
   module.parametrizations:set(name, list)
   return module
end

--- Returns whether a tensor of a module, by default any tensor, is parametrized.
---@param module nn.Module
---@param tensor_name? string
---@return boolean
function M.is_parametrized(module, tensor_name)
   check_module("is_parametrized", "module", module)
   if tensor_name then return list_of(module, tensor_name) ~= nil end
   local lists = rawget(module, "parametrizations")
   return lists ~= nil and class.isinstance(lists, ModuleDict) and #lists:children() > 0
end

local take_remove = args.signature [[remove_parametrizations(module: table, tensor_name: string,
   leave_parametrized: boolean = true)]]

--- Makes a parametrized tensor an ordinary one again. The tensor keeps its present value. With
--- `{leave_parametrized = false}` it gets the value of the original. This is an error if the tensor
--- is computed from several stored tensors.
---@param module nn.Module
---@param tensor_name string
---@param options? {leave_parametrized: boolean}
---@return nn.Module module
function M.remove_parametrizations(...)
   local a = take_remove(...)
   local module, name = a.module, a.tensor_name
   check_module("remove_parametrizations", "module", module)
   local list = list_of(module, name)
   if not list then
      torch.raise(("remove_parametrizations: %s of %s is not parametrized"):format(
         name, torch.type(module)))
   end
   if not list.is_tensor and not a.leave_parametrized then
      torch.raise(("remove_parametrizations: leave_parametrized: %s is computed from %d tensors, "
         .. "so that there is no original to go back to"):format(name, list.ntensors))
   end
   local original = list.is_tensor and list.original or list.original0
   local was_parameter = original.is_parameter
   local value = original
   if a.leave_parametrized then
      local computed
      do
         local _ <close> = torch.no_grad()
         computed = module[name]:detach()
      end
      if list.is_tensor then
         set(original, computed)
      else
         value = was_parameter
            and Parameter(computed:clone(), {requires_grad = original.requires_grad})
            or computed:clone()
      end
   end
   rawset(module.parametrizations, name, nil)
   if not M.is_parametrized(module) then
      rawset(module, "parametrizations", nil)
      setmetatable(module, getmetatable(module).plain_class)
   end
   if was_parameter then
      module[name] = value
   else
      module:register_buffer(name, value)
   end
   return module
end

--- Returns the module's class without parametrizations.
---@param module nn.Module
---@return table class
function M.type_before_parametrizations(module)
   check_module("type_before_parametrizations", "module", module)
   local cls = getmetatable(module)
   return rawget(cls, "plain_class") or cls
end

--- Copies the parametrizations of a module, or of one of its tensors, to another module, with their
--- stored tensors.
---@param from nn.Module
---@param to nn.Module
---@param tensor_name? string
---@return nn.Module to
function M.transfer_parametrizations_and_params(from, to, tensor_name)
   local name = "transfer_parametrizations_and_params"
   check_module(name, "from_module", from)
   check_module(name, "to_module", to)
   if not M.is_parametrized(from, tensor_name) then
      torch.raise(("%s: %s is not parametrized"):format(name, tensor_name or torch.type(from)))
   end
   for field, list in rawget(from, "parametrizations"):items() do
      if tensor_name == nil or field == tensor_name then
         local copied = list:clone()
         for i = 1, #copied do
            M.register_parametrization(to, field, copied[i], {unsafe = true})
         end
         local target = list_of(to, field)
         for i = 0, list.ntensors - 1 do
            local key = list.is_tensor and "original" or "original" .. i
            set(target[key], copied[key])
         end
      end
   end
   return to
end

return M
