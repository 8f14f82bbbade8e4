-- entries.lua - lists the tensors and the plain values in a table of modules, optimizers, tensors
-- and plain values. The tensors' names do not depend on how the model is split.
--
-- A module's parameters and persistent buffers are named by their paths below the module's key; a
-- DistributedDataParallel wrapper does not change the names. An optimizer's state is named by the
-- paths of its parameters. A pipeline stage's modules are stored under their paths in the whole
-- model: {model = {blocks = {[3] = block}}}.

local torch = require "tlua"
local class = require "tlua.class"
local placement = require "tlua.distributed.placement"
local DDP = require "tlua.distributed.DistributedDataParallel"
local Module = require "tlua.nn.modules.Module"
local Optimizer = require "tlua.optim.Optimizer"

local M = {}

---@class distributed.checkpoint.Entry
---@field name string
---@field tensor Tensor  this rank's part
---@field place distributed.Placement

local function join(path, key)
   return path == "" and tostring(key) or path .. "." .. tostring(key)
end

local function refuse(title, path, why)
   torch.raise(("%s: %s: %s"):format(title, path == "" and "the state" or path, why))
end

-- Calls visit(kind, path, value, owner, key) for each tensor, module, optimizer and plain value in
-- a state, also in nested tables. `value` is stored in the table `owner` under the key `key`.
-- `open` is the set of the tables that are being visited.
local function walk(title, value, path, visit, owner, key, open)
   if torch.is_tensor(value) then return visit("tensor", path, value, owner, key) end
   if class.isinstance(value, Module) then return visit("module", path, value, owner, key) end
   if class.isinstance(value, Optimizer) then return visit("optimizer", path, value, owner, key) end
   local kind = type(value)
   if kind == "number" or kind == "string" or kind == "boolean"
      or torch.type(value) == "torch.device" then
      return visit("plain", path, value, owner, key)
   end
   if kind ~= "table" or getmetatable(value) then
      refuse(title, path, ("%s cannot be saved"):format(torch.type(value)))
   end
   if open[value] then refuse(title, path, "the table contains itself") end
   open[value] = true
   for k, item in pairs(value) do
      if type(k) ~= "string" and math.type(k) ~= "integer" then
         refuse(title, path, ("a %s as a key cannot be saved"):format(type(k)))
      end
      walk(title, item, join(path, k), visit, value, k, open)
   end
   open[value] = nil
end

-- Returns an optimizer's state for one parameter. Returns nil if another rank has the state of this
-- parameter, because the state is sharded.
local function state_at(optimizer, position)
   if optimizer.local_state then return optimizer:local_state(position) end
   return optimizer:state_of(position)
end

--- Lists the contents of a state: first the tensors of modules and of the table itself, then the
--- state of the optimizers under the names of their parameters.
---@param title string  the function's name, for messages
---@param state table
---@return distributed.checkpoint.Entry[] entries
---@return table optimizers  {path, optimizer, names indexed by position}
---@return table plain  {path, value, owner, key}
function M.collect(title, state)
   local list, optimizers, plain, names, seen = {}, {}, {}, {}, {}
   local function add(name, tensor, place)
      if seen[name] then refuse(title, name, "it occurs twice") end
      seen[name] = true
      list[#list + 1] = {name = name, tensor = tensor, place = place}
   end
   walk(title, state, "", function(kind, path, value, owner, key)
      if kind == "plain" then
         plain[#plain + 1] = {path, value, owner, key}
      elseif kind == "tensor" then
         add(path, value, placement.of(value))
         names[value] = path
      elseif kind == "optimizer" then
         optimizers[#optimizers + 1] = {path, value, {}}
      else
         if class.isinstance(value, DDP) then value = value.module end
         for name, p in value:named_parameters(path) do
            names[p] = name
            add(name, p, placement.of(p))
         end
         local buffers = value:state_dict(path)
         for name, tensor in pairs(buffers) do
            if not seen[name] then add(name, tensor, placement.of(tensor)) end
         end
      end
   end, nil, nil, {})
   for _, entry in ipairs(optimizers) do
      for position, p in entry[2]:each() do
         local name = names[p]
         if not name then
            refuse(title, entry[1], ("its parameter %d is in no module of the state"):format(
               position))
         end
         entry[3][position] = name
      end
   end
   return list, optimizers, plain
end

--- Returns the placement of a state tensor that is split like its parameter or is the same on all
--- ranks.
function M.place_of(p, tensor)
   local place = placement.of(p)
   local n = place.flat and place.count or placement.product(place.size)
   if tensor:dim() > 0 and tensor:numel() == n then return place end
   return placement.of(tensor)
end

--- Returns the tensors and the plain values of the optimizers' states.
---@return distributed.checkpoint.Entry[] entries
---@return table<string, any> values
function M.of_optimizers(optimizers)
   local list, values = {}, {}
   for _, entry in ipairs(optimizers) do
      local path, optimizer, names = table.unpack(entry)
      for position, p, group in optimizer:each() do
         local name = ("%s.state.%s."):format(path, names[position])
         for key, value in pairs(state_at(optimizer, position) or {}) do
            if torch.is_tensor(value) then
               list[#list + 1] = {name = name .. key, tensor = value, place = M.place_of(p, value)}
            else
               values[name .. key] = value
            end
         end
         for key, value in pairs(group) do
            if torch.is_tensor(value) then value = value:item() end
            if key ~= "params" and key ~= "param_names" then
               values[("%s.options.%s.%s"):format(path, names[position], key)] = value
            end
         end
      end
   end
   return list, values
end

return M
