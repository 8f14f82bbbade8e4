-- containers.lua - Torch7's containers whose inputs or outputs are tables, such as ConcatTable, and
-- their base class Container.

local torch = require "tlua"
local args = require "tlua.args"
local class = require "tlua.class"
local Module = require "tlua.nn.modules.Module"

local M = {}

-- The base class of all containers. `container[i]` is the i-th module, and `#container` is the
-- number of modules.
--@class nn.Container: nn.Module
--
--    local module = torch.nn.ConcatTable():add(torch.nn.ReLU())
--    print(torch.isinstance(module, torch.nn.Container), #module)
--    --> true	1
local Container, parent = class.class("nn.Container", Module)
M.Container = Container

---@param ... nn.Module
function Container:__init(...)
   parent.__init(self)
   for i = 1, select("#", ...) do self:add((select(i, ...))) end
end

--- Adds a module at the end.
---@param module nn.Module
---@return nn.Container self
function Container:add(module)
   if not class.isinstance(module, Module) then
      args.refuse(torch.type(self), "module " .. #self + 1, "a module", module)
   end
   self[#self + 1] = module
   return self
end

--- Returns the module at a position.
---@param position integer
---@return nn.Module
function Container:get(position)
   return self[position]
end

--- Returns the number of modules.
---@return integer
function Container:size()
   return #self
end

local function check_table(self, input)
   if type(input) ~= "table" then args.refuse(torch.type(self), "input", "a table", input) end
end

--- ConcatTable: passes the whole input to every module, and returns a table of their results.
---
---     local nn = torch.nn
---     local module = nn.ConcatTable():add(nn.ReLU()):add(nn.Tanh())
---     local results = module(torch.tensor {-1.0, 0.0})
---     print(results[1], results[2])
---     --> tensor([0., 0.])	tensor([-0.7616,  0.0000])
---@class nn.ConcatTable: nn.Container
local ConcatTable = class.class("nn.ConcatTable", Container)
M.ConcatTable = ConcatTable

---@param input any
---@return any[]
function ConcatTable:forward(input)
   local outputs = {}
   for i, module in ipairs(self) do outputs[i] = module(input) end
   return outputs
end

--- Concat: passes the whole input to every module, and concatenates their results along a
--- dimension.
---
---     local nn = torch.nn
---     local module = nn.Concat(1):add(nn.ReLU()):add(nn.Identity())
---     print(module(torch.tensor {-1.0, 2.0}))
---     --> tensor([ 0.,  2., -1.,  2.])
---@class nn.Concat: nn.Container
---@overload fun(dim: integer, ...: nn.Module): nn.Concat
local Concat = class.class("nn.Concat", Container)
M.Concat = Concat

---@param dim integer
---@param ... nn.Module
function Concat:__init(dim, ...)
   if math.type(dim) ~= "integer" then args.refuse("nn.Concat", "dim", "an integer", dim) end
   Container.__init(self, ...)
   self.dim = dim
end

---@param input any
---@return Tensor
function Concat:forward(input)
   if #self == 0 then torch.raise "nn.Concat: expected at least one module" end
   return torch.cat(ConcatTable.forward(self, input), self.dim)
end

function Concat:extra_repr()
   return "dim=" .. self.dim
end

--- ParallelTable: passes the i-th element of the input to the i-th module, and returns a table of
--- the results.
---
---     local nn = torch.nn
---     local module = nn.ParallelTable():add(nn.ReLU()):add(nn.Identity())
---     local results = module {torch.tensor {-1.0, 2.0}, torch.tensor {-3.0}}
---     print(results[1], results[2])
---     --> tensor([0., 2.])	tensor([-3.])
---@class nn.ParallelTable: nn.Container
local ParallelTable = class.class("nn.ParallelTable", Container)
M.ParallelTable = ParallelTable

---@param input any[]
---@return any[]
function ParallelTable:forward(input)
   check_table(self, input)
   if #input ~= #self then
      torch.raise(("nn.ParallelTable: input: expected %d elements, one for each module, got %d")
         :format(#self, #input))
   end
   local outputs = {}
   for i, module in ipairs(self) do outputs[i] = module(input[i]) end
   return outputs
end

--- MapTable: passes each element of the input to one module, and returns a table of the results.
---
---     local module = torch.nn.MapTable(torch.nn.ReLU())
---     local results = module {torch.tensor {-1.0}, torch.tensor {2.0}}
---     print(results[1], results[2])
---     --> tensor([0.])	tensor([2.])
---@class nn.MapTable: nn.Container
---@overload fun(module?: nn.Module): nn.MapTable
local MapTable = class.class("nn.MapTable", Container)
M.MapTable = MapTable

---@param module nn.Module
---@return nn.MapTable self
function MapTable:add(module)
   if #self > 0 then torch.raise "nn.MapTable: expected one module; it has one" end
   return Container.add(self, module)
end

---@param input any[]
---@return any[]
function MapTable:forward(input)
   check_table(self, input)
   if #self == 0 then torch.raise "nn.MapTable: expected one module; it has none" end
   local outputs = {}
   for i, element in ipairs(input) do outputs[i] = self[1](element) end
   return outputs
end

return M
