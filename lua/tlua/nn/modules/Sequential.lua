-- Sequential.lua - a chain of modules: each gets the outputs of the one before it.

local torch = require "tlua"
local args = require "tlua.args"
local checked = require "tlua.checked"
local class = require "tlua.class"
local fuses = require "tlua.nn.modules.Linear".activation
local Module = require "tlua.nn.modules.Module"
local slicing = require "tlua.nn.modules.slicing"

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

slicing.define(Sequential, function(modules) return Sequential(modules) end, module_or_nil,
   "a module")

-- Refuses a module with a name: it would be a child, but `forward` would never call it.
local set_position <const> = Sequential.__newindex

function Sequential:__newindex(name, value)
   if type(name) == "string" and class.isinstance(value, Module)
         and self.forward == Sequential.forward then
      self:_admit(name, value)
      torch.raise(("%s: %s: its modules have positions; seq:append(module) adds one, and a class "
         .. "with a forward of its own may have others"):format(torch.type(self), name))
   end
   return set_position(self, name, value)
end

--- Takes modules, or one list of them. `seq[i]` is the i-th module, `seq[-1]` the last one,
--- `seq[{i, j}]` a Sequential of those from i to j, `#seq` their number; `ipairs(seq)` iterates
--- over them. Modules have positions and no names: pairs, as in PyTorch's OrderedDict, are refused.
---@param ... nn.Module|nn.Module[]
function Sequential:__init(...)
   parent.__init(self)
   local list = table.pack(...)
   if list.n == 1 and type(list[1]) == "table" and not getmetatable(list[1]) then
      slicing.check(torch.type(self), "modules", list[1])
      list = {n = #list[1], table.unpack(list[1])}
   end
   for i = 1, list.n do self:add(list[i]) end
end

-- Refuses PyTorch's pairs of a name and a module.
local function refuse_pair(position, value)
   if type(value) ~= "table" or getmetatable(value) or type(value[1]) ~= "string" then return end
   torch.raise(("nn.Sequential: module %d: expected a module, got a pair with the name %s; its "
      .. "modules have positions: write nn.Sequential(first, second), or a class with fields and a "
      .. "forward of its own"):format(position, value[1]))
end

--- Adds a module at the end.
---@param module nn.Module
---@return nn.Sequential self
function Sequential:add(module)
   refuse_pair(#self + 1, module)
   if not class.isinstance(module, Module) then
      args.refuse("nn.Sequential", "module " .. #self + 1, "a module", module)
   end
   self[#self + 1] = module
   return self
end
--- Inserts a module at a position, and shifts this and all later modules by one.
---@param position integer  from 1 to #seq + 1
---@param module nn.Module
---@return nn.Sequential self
function Sequential:insert(position, module)
   local n = #self
   if math.type(position) ~= "integer" or position < 1 or position > n + 1 then
      args.refuse(torch.type(self) .. ".insert", "position",
         ("an integer from 1 to %d"):format(n + 1),
         position)
   end
   if not class.isinstance(module, Module) then
      args.refuse(torch.type(self) .. ".insert", "module", "a module", module)
   end
   self:_admit(position, module)
   for i = n, position, -1 do self[i + 1] = self[i] end
   self[position] = module
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
   for i = position, n do rawset(self, i, self[i + 1]) end
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

--- Calls the modules in order. A Linear and the activation after it are computed in one pass.
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

--- Returns another Sequential with some of the modules, which both share.
---@param first integer  negative numbers count from the end
---@param last? integer  the last by default
---@return nn.Sequential
function Sequential:slice(first, last)
   return self[{first, last or -1}]
end

checked.methods(Sequential, [[add(module: any) insert(position: integer, module: any)
   remove(position: integer?) extend(modules: any) slice(first: integer, last: integer?)]])
Sequential.append = Sequential.add
Sequential.pop = Sequential.remove

return Sequential
