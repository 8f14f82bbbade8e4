-- Sequential.lua - a chain of modules: each module gets the outputs of the previous one.

local torch = require "tlua"
local args = require "tlua.args"
local checked = require "tlua.checked"
local class = require "tlua.class"
local fuses = require "tlua.nn.modules.Linear".activation
local item_names = require "tlua.nn.item_names"
local Module = require "tlua.nn.modules.Module"
local slicing = require "tlua.nn.modules.slicing"

--- A chain of modules: each module gets the outputs of the previous one.
---
---     local model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU())
---     model:append(torch.nn.Linear(8, 2))
---     print(table.unpack(model(torch.zeros(5, 4)).shape))
---     --> 5	2
---     print(#model, model[-1])
---     --> 3	Linear(in_features=8, out_features=2, bias=true)
---@class nn.Sequential: nn.Module
---@overload fun(...: nn.Module): nn.Sequential
local Sequential, parent = class.class("nn.Sequential", Module)

local function module_or_nil(value) return class.isinstance(value, Module) and value or nil end

-- Returns a Sequential of `modules`, which are items of the Sequential `from` from position `first`
-- on. The modules keep the names that they have in `from`.
local function slice_of(modules, from, first)
   local slice, names = Sequential(modules), item_names.of(from) or {}
   for i = 1, #modules do item_names.set(slice, i, names[first + i - 1]) end
   return slice
end

slicing.define(Sequential, slice_of, module_or_nil, "a module")

-- Replaces the module that has the assigned name. Raises an error for a module with a new name,
-- unless the class has its own `forward`: Sequential's `forward` would never call this child.
local set_position <const> = Sequential.__newindex

function Sequential:__newindex(name, value)
   local position = item_names.position(self, name)
   if position then
      if not class.isinstance(value, Module) then
         args.refuse(torch.type(self), name, "a module (seq:remove(position) removes one)", value)
      end
      self:_admit(name, value)
      return rawset(self, position, value)
   end
   if type(name) == "string" and class.isinstance(value, Module)
         and self.forward == Sequential.forward then
      self:_admit(name, value)
      torch.raise(('%s: %s: seq:add_module("%s", module) adds a module with a name at the end; a '
         .. "class with a forward of its own may have others"):format(torch.type(self), name, name))
   end
   return set_position(self, name, value)
end

-- Returns the items of a plain table. A table with names as keys is refused, since its order is
-- undefined.
local function list_of(title, modules)
   for key, value in pairs(modules) do
      if type(key) == "string" then
         torch.raise(('%s: modules: expected a list, got a table with the key %s, whose order is '
            .. 'undefined; write %s {{"%s", %s}, ...}, a list of pairs'):format(title, key, title,
            key, class.isinstance(value, Module) and torch.type(value) .. "(...)" or "module"))
      end
   end
   if type(modules[1]) == "string" and #modules == 2 then return {n = 1, modules} end
   slicing.check(title, "modules", modules)
   return {n = #modules, table.unpack(modules)}
end

--- Takes modules, or one list of them. `seq[i]` is the i-th module, `seq[-1]` the last one,
--- `seq[{i, j}]` a Sequential of the modules i to j, and `#seq` the number of modules;
--- `ipairs(seq)` iterates over the modules. A pair {name, module} gives a module a name, as
--- PyTorch's OrderedDict does: `nn.Sequential {{"conv", m}, {"act", n}}` has conv.weight in its
--- state, and `seq.conv`.
---@param ... nn.Module|table
function Sequential:__init(...)
   parent.__init(self)
   local list = table.pack(...)
   if list.n == 1 and type(list[1]) == "table" and not getmetatable(list[1]) then
      list = list_of(torch.type(self), list[1])
   end
   for i = 1, list.n do self:add(list[i]) end
end

-- Returns the module of a pair {name, module} and its name, or only the module if `value` is a
-- module.
local function unpack_pair(self, what, position, value)
   local name
   local is_plain = type(value) == "table" and not getmetatable(value)
   if is_plain and #value == 2 then
      name = item_names.check(self, position, value[1])
      value = value[2]
   end
   if not class.isinstance(value, Module) then
      args.refuse(torch.type(self), what,
         is_plain and 'a module, or a pair {"name", module}' or "a module", value)
   end
   return value, name
end

--- Adds a module at the end.
---@param module nn.Module|table  a pair {name, module} for one with a name
---@return nn.Sequential self
function Sequential:add(module)
   local position = #self + 1
   local value, name = unpack_pair(self, "module " .. position, position, module)
   self[position] = value
   item_names.set(self, position, name)
   return self
end

--- Adds a module with a name at the end, or replaces the module that has the name or position.
---
---     local seq = torch.nn.Sequential()
---     seq:add_module("fc", torch.nn.Linear(2, 3))
---     print(seq.fc == seq[1], seq:get_parameter("fc.weight"):size(1))
---     --> true	3
---@param name string|integer
---@param module nn.Module
---@return nn.Sequential self
function Sequential:add_module(name, module)
   if not class.isinstance(module, Module) then
      args.refuse(torch.type(self) .. ".add_module", tostring(name), "a module", module)
   end
   if item_names.position(self, name) or class.isinstance(rawget(self, name), Module) then
      self:_admit(name, module)
      self[name] = module
      return self
   end
   local position = math.tointeger(name)
   if position and position >= 1 and position <= #self and not (item_names.of(self) or {})[position]
         or type(name) == "number" then
      return parent.add_module(self, position or name, module)
   end
   return self:add {name, module}
end

--- Inserts a module at a position, and shifts the module there and all later ones by one position.
---@param position integer  from 1 to #seq + 1
---@param module nn.Module|table  a pair {name, module} for one with a name
---@return nn.Sequential self
function Sequential:insert(position, module)
   local n = #self
   if math.type(position) ~= "integer" or position < 1 or position > n + 1 then
      args.refuse(torch.type(self) .. ".insert", "position",
         ("an integer from 1 to %d"):format(n + 1),
         position)
   end
   local value, name = module, nil
   if class.isinstance(self, Sequential) then
      value, name = unpack_pair(self, "insert: module", position, module)
   elseif not class.isinstance(module, Module) then
      args.refuse(torch.type(self) .. ".insert", "module", "a module", module)
   end
   self:_admit(position, value)
   item_names.shift(self, position, 1, function()
      for i = n, position, -1 do self[i + 1] = self[i] end
      self[position] = value
   end)
   item_names.set(self, position, name)
   return self
end

--- Removes a module.
---@param position? integer  the last by default
---@return nn.Module
function Sequential:remove(position)
   local n = #self
   position = position or n
   if math.type(position) ~= "integer" or position < 1 or position > n then
      args.refuse(torch.type(self) .. ".remove", "position", ("an integer from 1 to %d"):format(n),
         position)
   end
   local module = self[position]
   item_names.shift(self, position, -1, function()
      for i = position, n do rawset(self, i, self[i + 1]) end
   end)
   return module
end

--- Adds the modules of a list, or of another Sequential, at the end.
---@param modules nn.Module[]|nn.Sequential
---@return nn.Sequential self
function Sequential:extend(modules)
   slicing.check(torch.type(self) .. ".extend", "modules", modules)
   for i = 1, #modules do self:add(modules[i]) end
   return self
end

--- Calls the modules in order. A Linear and an activation that follows it are computed in one pass
--- over memory.
---@param input any
---@return any
function Sequential:forward(input, ...)
   local more = select("#", ...)
   if more > 0 then
      torch.raise(("%s: expected 1 argument, got %d"):format(torch.type(self), 1 + more))
   end
   local i, n = 1, #self
   while i < n do
      local module = self[i]
      local activation = fuses(module, self[i + 1])
      if activation then
         input = module(input, activation)
         i = i + 2
      else
         input = module(input)
         i = i + 1
      end
   end
   if i > n then return input end
   return self[n](input)
end

--- Returns a new Sequential of the modules `first` to `last`, which it shares with this one.
---@param first integer  negative numbers count from the end
---@param last? integer  the last by default
---@return nn.Sequential
function Sequential:slice(first, last)
   return self[{first, last or -1}]
end

checked.methods(Sequential, [[add(module: any) add_module(name: any, module: any)
   insert(position: integer, module: any)
   remove(position: integer?) extend(modules: any) slice(first: integer, last: integer?)]])
Sequential.append = Sequential.add
Sequential.pop = Sequential.remove

return Sequential
