-- Module.lua - the base of all layers and models.
--
-- A parameter, buffer or module that is assigned to a field of a module belongs to that module from
-- then on. A module lists the names of its fields in the order of their first assignment
-- (`_fields`, see order.lua). The value of a field is looked up each time it is used, so a field
-- may be assigned again or set to nil.

local torch = require "tlua"
local args = require "tlua.args"
local checked = require "tlua.checked"
local class = require "tlua.class"
local scopes = require "tlua.scope"
local item_names = require "tlua.nn.item_names"
local members = require "tlua.nn.members"
local order = require "tlua.nn.order"
local zero_grad = require "tlua.autograd.zero_grad"
local packages = require "tlua.packages"

--- The base of all layers and models. A class derived from it defines `forward`; parameters,
--- buffers and modules assigned to fields belong to the module.
---
---
---     local Double = torch.class("Double", torch.nn.Module)
---     function Double:__init() torch.nn.Module.__init(self) end
---     function Double:forward(x) return 2 * x end
---     print(Double()(torch.ones(3)))
---     --> tensor([2., 2., 2.])
---@class nn.Module
---@field half fun(self): nn.Module  casts floating parameters and buffers to float16
---@field bfloat16 fun(self): nn.Module  casts floating parameters and buffers to bfloat16
---@field float fun(self): nn.Module  casts floating parameters and buffers to float32
---@field double fun(self): nn.Module  casts floating parameters and buffers to float64
---@field training boolean  whether the module is in training mode; initially true
---@field forward fun(self: nn.Module, ...): any  computes the result; calling the module calls it
local Module = class.class("nn.Module")
members.Module = Module

local is_module <const>, is_parameter <const> = members.is_module, members.is_parameter
local collect <const>, own_modules <const> = members.collect, members.own_modules

-- Defaults for fields that instances may set: the hooks or false, and whether the module is in
-- evaluation mode. Because the class has these defaults, reading the fields never calls the
-- metamethod __index.
Module._hooks = false
Module._evaluating = false
-- Defaults for two more fields: _keeps_dtypes tells whether tensors keep their dtypes when the
-- module is cast, and _expects is false or a method that checks the tensors of a loaded state.
Module._keeps_dtypes, Module._expects = false, false

-- `training = true` is a field of the class, and an instance has its own field only in evaluation
-- mode. So an assignment to `training` in training mode calls __newindex, which checks the value. A
-- value assigned in evaluation mode is checked when the module is called.
rawset(Module, "training", true)

local function set_mode(module, mode)
   rawset(module, "_evaluating", not mode)
   if mode then mode = nil end
   rawset(module, "training", mode)
end

-- While the profiler watches all modules, its function that calls a module (see hooks.lua),
-- otherwise nil. __call reads this local variable; other files read the field `around` of the table
-- Module._watched.
local around = nil
Module._watched = {}

function Module._watch(fn)
   around, Module._watched.around = fn, fn
end

local info = getmetatable(Module)
local define <const> = info.__newindex

function info.__call(cls, ...)
   local object = setmetatable({_hooks = false, _evaluating = false}, cls)
   object:__init(...)
   return order.made(object)
end

-- Raises an error for ipairs(module) if the module has no numbered children, because the loop would
-- silently run zero times.
function info.__index(_, key)
   if key == 1 then
      torch.raise("this module has no numbered parts to index or to loop over: ipairs goes through "
         .. "nn.Sequential and lists of modules, items() through nn.ModuleDict, named_children() "
         .. "through any")
   end
end

function info.__newindex(cls, name, value)
   if name == "training" then
      torch.raise(("%s: training is a field of each instance, true or false; a class that has more "
         .. "to do when the mode changes defines train(mode)"):format(cls.__name))
   end
   define(cls, name, value)
end

function Module:__init() end

-- Returns whether `part` is the module itself or one of its descendants.
local function has(module, part, seen)
   if module == part then return true end
   if seen[module] then return false end
   seen[module] = true
   local list = rawget(module, "_fields")
   for _, name in ipairs(list and list.order or {}) do
      local value = rawget(module, name)
      if is_module(value) and has(value, part, seen) then return true end
   end
   return false
end

-- Checks a value that is to be assigned to a field. Raises an error for a module that would become
-- its own descendant.
function Module:_admit(name, value)
   if type(value) ~= "table" or not class.isinstance(value, Module) or not has(value, self, {}) then
      return
   end
   torch.raise(("%s: %s: expected a module that does not contain it, got %s"):format(
      torch.type(self), tostring(name), value == self and "the module itself"
      or ("an instance of %s that contains it"):format(torch.type(value))))
end

local function refuse_mode(module, mode)
   torch.raise(("%s: training: expected true or false, got %s; m:train(mode) and m:eval() set it "
      .. "for all modules, an assignment for one"):format(torch.type(module), args.describe(mode)))
end

local function check_mode(module)
   local mode = rawget(module, "training")
   if type(mode) ~= "boolean" then refuse_mode(module, mode) end
   -- The program has assigned training = true while the module was in evaluation mode.
   set_mode(module, mode)
end

function Module:__newindex(name, value)
   if name == "training" then
      if type(value) ~= "boolean" then refuse_mode(self, value) end
      return set_mode(self, value)
   end
   self:_admit(name, value)
   rawset(self, name, value)
   local fields = rawget(self, "_fields")
   if not fields then
      fields = {order = {}, known = {}}
      rawset(self, "_fields", fields)
   end
   local known = fields.known
   -- An item of a dictionary that was set to nil and is assigned again moves to the end of the
   -- list. A field of another module keeps its place.
   if known[name] and self._items then order.remove(fields, name) end
   if not known[name] then order.add(self, fields.order, name) end
   known[name] = members.is_parameter(value) and "parameter" or true
end

-- Members of a module -----------------------------------------------------------------------

local function values(pairs_list)
   local list = {}
   for i, pair in ipairs(pairs_list) do list[i] = pair[2] end
   return list
end

local function iterate(pairs_list)
   local i = 0
   return function()
      i = i + 1
      local pair = pairs_list[i]
      if pair then return pair[1], pair[2] end
   end
end

local none <const> = {}

-- Returns a function that reads the options of a method, which are given by position or by name.
-- For a call without options it does nothing, so that such calls stay fast.
local function reader(method, parameters)
   local take = args.signature(("nn.Module.%s(%s)"):format(method, parameters))
   return function(...)
      if select("#", ...) == 0 then return none end
      return take(...)
   end
end

local recurse <const> = "recurse: boolean = true"
local naming <const> = "prefix: string = '', recurse: boolean = true, "
   .. "remove_duplicate: boolean = true"
local of_parameters, of_buffers = reader("parameters", recurse), reader("buffers", recurse)
local of_named_parameters = reader("named_parameters", naming)
local of_named_buffers = reader("named_buffers", naming)
local of_named_modules = reader("named_modules",
   "prefix: string = '', remove_duplicate: boolean = true")

--- Returns all parameters of the module and its submodules, each once.
---@param ... boolean|{recurse: boolean}  whether to include submodules; true by default
---@return Tensor[]
function Module:parameters(...)
   return values(collect(self, members.own_parameters, of_parameters(...)))
end

--- Iterates over the names and values of all parameters: `for name, p in m:named_parameters()`. The
--- options, by position or by name, are: prefix, which is put before the names; recurse (true),
--- whether to include submodules; and remove_duplicate (true), whether a shared parameter comes
--- only once.
---@param ... string|{prefix: string, recurse: boolean, remove_duplicate: boolean}
---@return fun(): string, Tensor
function Module:named_parameters(...)
   return iterate(collect(self, members.own_parameters, of_named_parameters(...)))
end

--- Returns all buffers, each once.
---@param ... boolean|{recurse: boolean}  whether to include submodules; true by default
---@return Tensor[]
function Module:buffers(...)
   return values(collect(self, members.own_buffers, of_buffers(...)))
end

--- Iterates over the names and values of all buffers; the options are those of named_parameters.
---@param ... string|{prefix: string, recurse: boolean, remove_duplicate: boolean}
---@return fun(): string, Tensor
function Module:named_buffers(...)
   return iterate(collect(self, members.own_buffers, of_named_buffers(...)))
end

--- Returns this module and its descendants, parents before children, each once.
---@return nn.Module[]
function Module:modules()
   local list = {}
   members.visit(self, "", {enter = function(module) list[#list + 1] = module end, once = true})
   return list
end

--- Iterates over this module, whose path is "", and its descendants; yields each module's path and
--- the module.
---@param ... string|{prefix: string, remove_duplicate: boolean}  the options of named_parameters
--- without recurse
---@return fun(): string, nn.Module
function Module:named_modules(...)
   local options, list = of_named_modules(...), {}
   members.visit(self, options.prefix or "", {
      enter = function(module, path) list[#list + 1] = {path, module} end,
      once = options.remove_duplicate ~= false,
   })
   return iterate(list)
end

--- Returns the module's children, each once.
---@return nn.Module[]
function Module:children()
   local list = {}
   for _, child in own_modules(self) do list[#list + 1] = child end
   return list
end

--- Iterates over the names and values of the module's children.
---@return fun(): string|integer, nn.Module
function Module:named_children()
   return own_modules(self)
end

-- Adding and finding --------------------------------------------------------------------------

-- Refuses a name that contains a dot, since dots separate the names in a path, and the name of a
-- method, which the member would hide.
local function check_name(self, method, name)
   if name == "" or type(name) == "string" and name:find(".", 1, true) then
      args.refuse("nn.Module." .. method, "name", "a name without dots", name)
   elseif type(self[name]) == "function" then
      torch.raise(("nn.Module.%s: %s is the name of a method"):format(method, name))
   end
end

--- Adds a tensor that is not a parameter to the module's state: it is moved, cast and saved with
--- the module. `persistent = false` keeps it out of the saved state.
---@param name string
---@param tensor? Tensor
---@param persistent? boolean  true by default; also {persistent = false}
function Module:register_buffer(name, tensor, persistent)
   check_name(self, "register_buffer", name)
   local marked = rawget(self, "_buffers")
   if not marked then
      marked = {}
      rawset(self, "_buffers", marked)
   end
   marked[name] = persistent == false and "transient" or "persistent"
   order.begin()
   self[name] = tensor
end

--- Sets a field to a parameter, as an assignment does.
---@param name string
---@param parameter? Tensor
function Module:register_parameter(name, parameter)
   if parameter ~= nil and not is_parameter(parameter) then
      args.refuse("register_parameter", name, "a parameter (see nn.Parameter) or nil", parameter)
   end
   check_name(self, "register_parameter", name)
   order.begin()
   self[name] = parameter
end

--- Sets a field to a module, as an assignment does.
---@param name string
---@param module? nn.Module
---@return nn.Module self
function Module:add_module(name, module)
   if module ~= nil and not is_module(module) then
      args.refuse("add_module", tostring(name), "a module or nil", module)
   end
   check_name(self, "add_module", name)
   self:_admit(name, module)
   order.begin()
   self[name] = module
   return self
end

-- Returns the object at a path below `root`. Raises an error if there is none.
local function descend(root, path)
   local object, done = root, ""
   for name in path:gmatch "[^.]+" do
      local value
      if is_module(object) then value = object[name] or object[math.tointeger(name)] end
      if value == nil then
         torch.raise(("%s has no %s%s"):format(torch.type(root), path,
            done == "" and "" or (": %s has no %s"):format(done, name)))
      end
      object, done = value, members.join(done, name)
   end
   return object
end

--- Returns the module at a path such as "encoder.3.conv"; for the path "", returns this module.
---@param path string
---@return nn.Module
function Module:get_submodule(path)
   local module = descend(self, path)
   if not is_module(module) then
      torch.raise(("%s: %s is not a module"):format(torch.type(self), path))
   end
   return module
end

--- Returns the parameter at a path such as "encoder.3.conv.weight".
---@param path string
---@return Tensor
function Module:get_parameter(path)
   local parameter = descend(self, path)
   if not is_parameter(parameter) then
      torch.raise(("%s: %s is not a parameter"):format(torch.type(self), path))
   end
   return parameter
end

--- Returns the buffer at a path such as "encoder.3.norm.running_mean".
---@param path string
---@return Tensor
function Module:get_buffer(path)
   local buffer = descend(self, path)
   local owner = self:get_submodule(path:match "^(.*)%.[^.]*$" or "")
   for _, own in members.own_buffers(owner) do
      if rawequal(own, buffer) then return buffer end
   end
   torch.raise(("%s: %s is not a buffer"):format(torch.type(self), path))
end

--- Replaces the module at a path.
---@param path string  such as "encoder.3"; the module above must exist
---@param module nn.Module
---@return nn.Module self
function Module:set_submodule(path, module)
   if type(path) ~= "string" or path == "" then
      args.refuse("set_submodule", "path", 'a path such as "encoder.3"', path)
   end
   if not is_module(module) then args.refuse("set_submodule", "module", "a module", module) end
   local above, name = path:match "^(.*)%.([^.]*)$"
   local owner = self:get_submodule(above or "")
   name = name or path
   local position = math.tointeger(tonumber(name))
   if position and rawget(owner, name) == nil then name = position end
   if rawget(owner, name) == nil and not item_names.position(owner, name) then
      torch.raise(("set_submodule: %s has no %s"):format(torch.type(self), path))
   end
   owner:add_module(name, module)
   return self
end

-- Calling -------------------------------------------------------------------------------------

--- Computes the module's outputs. Every class defines this method or, as in Torch7, updateOutput.
function Module:forward(...)
   local method = self.updateOutput
   if method ~= Module.updateOutput then return method(self, ...) end
   torch.raise(("%s has no method forward"):format(torch.type(self)))
end

-- Errors name the modules whose __call is active, so the frame of __call must stay on the stack. A
-- to-be-closed variable, even if its value is nil, keeps Lua from making a tail call.
function Module:__call(...)
   local _ <close> = nil
   if self._evaluating and self.training ~= false then check_mode(self) end
   if self._hooks or around then return require "tlua.nn.hooks".call(self, ...) end
   return self:forward(...)
end

--- Registers `hook(module, ...)`, which is called with the arguments of every forward call before
--- the call; a value that the hook returns replaces the arguments.
---@param hook fun(module: nn.Module, ...): any
---@param options? {prepend: boolean}  prepend: whether to call the hook before the others
---@return {remove: fun(self: table)} handle
function Module:register_forward_pre_hook(hook, options)
   return require "tlua.nn.hooks".add(self, "pre", hook, options)
end

--- Registers `hook(module, inputs, ...)`, which is called after every forward call, with the list
--- of arguments and then the results; a value that the hook returns replaces the results.
---@param hook fun(module: nn.Module, inputs: any[], ...): any
---@param options? {prepend: boolean, always_call: boolean}  always_call: also call the hook if
--- forward raises, without results; errors of the hook are then ignored
---@return {remove: fun(self: table)} handle
function Module:register_forward_hook(hook, options)
   return require "tlua.nn.hooks".add(self, "post", hook, options)
end

--- Registers `hook(module, grad_inputs, grad_outputs)`, which is called when the gradients of the
--- module's inputs are known. Both are lists by position (nil where an argument has no gradient). A
--- list that the hook returns replaces grad_inputs.
---@param hook fun(module: nn.Module, grad_inputs: Tensor[], grad_outputs: Tensor[]): Tensor[]?
---@param options? {prepend: boolean}
---@return {remove: fun(self: table)} handle
function Module:register_full_backward_hook(hook, options)
   return require "tlua.nn.hooks".add(self, "backward", hook, options)
end

--- Registers `hook(module, grad_outputs)`, which is called before the module's backward pass, when
--- the gradients of its results are known. A list that the hook returns replaces grad_outputs.
---@param hook fun(module: nn.Module, grad_outputs: Tensor[]): Tensor[]?
---@param options? {prepend: boolean}
---@return {remove: fun(self: table)} handle
function Module:register_full_backward_pre_hook(hook, options)
   return require "tlua.nn.hooks".add(self, "backward_pre", hook, options)
end

-- Modes, gradients, casts ---------------------------------------------------------------------

--- Calls fn with every module, children first.
---@param fn fun(module: nn.Module)
---@return nn.Module self
function Module:apply(fn)
   local above = {}
   local function visit(module)
      if above[module] then
         torch.raise(("%s contains itself: set such a field to nil"):format(torch.type(module)))
      end
      above[module] = true
      for _, child in own_modules(module) do visit(child) end
      above[module] = nil
      fn(module)
   end
   visit(self)
   return self
end

--- Sets training mode (dropout is active, and batch norm updates its statistics) or evaluation
--- mode, for this module and all its descendants. The mode of a single module is its field
--- `training`, which may be assigned.
---@param ... boolean  the mode; true without an argument, but nil is refused
---@return nn.Module self
function Module:train(...)
   local mode = select("#", ...) == 0 or (...)
   if type(mode) ~= "boolean" then args.refuse("train", "mode", "a boolean", mode) end
   if select("#", ...) > 1 then
      torch.raise(("train: expected at most 1 argument, got %d"):format(select("#", ...)))
   end
   members.visit(self, "", {enter = function(module) set_mode(module, mode) end, once = true})
   return self
end

--- Sets evaluation mode.
---@return nn.Module self
function Module:evaluate()
   return self:train(false)
end

--- Sets evaluation mode.
---@return nn.Module self
function Module:eval()
   return self:train(false)
end

--- Drops the gradients of all parameters, or zeroes them with `{set_to_none = false}`.
---@param set_to_none? boolean  true by default
---@return nn.Module self
function Module:zero_grad(set_to_none)
   zero_grad(self:parameters(), set_to_none)
   return self
end

--- Sets whether the parameters collect gradients; false freezes the module.
---@param requires_grad? boolean  true by default
---@return nn.Module self
function Module:requires_grad_(requires_grad)
   for _, parameter in ipairs(self:parameters()) do
      parameter:requires_grad_(requires_grad ~= false)
   end
   return self
end

-- Printing ------------------------------------------------------------------------------------

--- Returns the text between the parentheses of the printed module, such as the sizes of a layer.
---@return string
function Module:extra_repr()
   return ""
end

-- the modules that are being printed
local printing = setmetatable({}, {__mode = "k"})

-- Returns the text of a child for the printed text of its parent.
local function text_of(child)
   if printing[child] then return torch.type(child):match "[^.]*$" .. "(...)" end
   return (tostring(child):gsub("\n", "\n  "))
end

function Module:__tostring()
   local name = torch.type(self):match "[^.]*$"
   local extra = self:extra_repr()
   local lines = {}
   local _ <close> = scopes.new(function() printing[self] = nil end)
   printing[self] = true
   for key, child in members.fields(self) do -- a shared module is printed under each of its names
      if is_module(child) then lines[#lines + 1] = ("  (%s): %s"):format(key, text_of(child)) end
   end
   if #lines == 0 then return ("%s(%s)"):format(name, extra) end
   if extra ~= "" then table.insert(lines, 1, "  " .. extra) end
   return ("%s(\n%s\n)"):format(name, table.concat(lines, "\n"))
end

require "tlua.nn.conversions"
require "tlua.nn.state"

checked.methods(Module, [[modules() children() named_children() extra_repr() evaluate() eval()
   clone() cpu() float() double() half() bfloat16() cuda(device: device|integer?) type(dtype: any)
   zero_grad(set_to_none: boolean = true) requires_grad_(requires_grad: boolean = true)
   apply(fn: callable) register_buffer(name: string, tensor: tensor?, persistent: boolean = true)
   register_parameter(name: string, parameter: tensor?)
   add_module(name: string|integer, module: any?)
   get_submodule(path: string) get_parameter(path: string) get_buffer(path: string)
   set_submodule(path: string, module: any) register_state_dict_pre_hook(hook: callable)
   register_state_dict_post_hook(hook: callable) register_load_state_dict_pre_hook(hook: callable)
   register_load_state_dict_post_hook(hook: callable)]])
Module.register_module = Module.add_module

-- The methods of Torch7's modules are in the package torch7, which is loaded if it is installed.
if packages.has "tlua.torch7.methods" then
   require "tlua.torch7.methods" (Module)
else
   for name in ([[updateOutput zeroGradParameters getParameters findModules replace listModules
      clearState]]):gmatch "%S+" do
      Module[name] = function() packages.check("tlua.torch7.methods", "nn.Module." .. name) end
   end
end

return Module
