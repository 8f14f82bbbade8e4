-- stateless.lua - calls modules as functions of their parameters, for torch.func.

local torch = require "tlua"
local args = require "tlua.args"
local class = require "tlua.class"
local scopes = require "tlua.scope"
local members = require "tlua.nn.members"
local Module = require "tlua.nn.modules.Module"

local M = {}

-- Returns one table from paths to tensors. `dicts` is such a table, or a list of such tables, which
-- are merged.
local function merge(title, dicts)
   if type(dicts) ~= "table" or getmetatable(dicts) then
      args.refuse(title, "parameters", "a table of tensors by path, or a list of such", dicts)
   end
   if dicts[1] == nil then dicts = {dicts} end
   local merged = {}
   for i, dict in ipairs(dicts) do
      if type(dict) ~= "table" or getmetatable(dict) then
         args.refuse(title, ("parameters[%d]"):format(i), "a table of tensors by path", dict)
      end
      for path, tensor in pairs(dict) do
         if merged[path] then
            torch.raise(("%s: %s is in two of the tables"):format(title, path))
         end
         if type(path) ~= "string" then
            args.refuse(title, "parameters", "tensors by path, such as \"1.weight\"", path)
         end
         if not torch.is_tensor(tensor) then args.refuse(title, path, "a tensor", tensor) end
         merged[path] = tensor
      end
   end
   return merged
end

-- Returns a table that maps the path of each tensor of a module to {owner, field, tensor}. A shared
-- tensor is listed under each of its paths.
local function places(module)
   local found = {}
   members.visit(module, "", {value = function(path, value, owner, name)
      local is_tensor = torch.is_tensor(value)
      if is_tensor and (members.counts_as_parameter(owner, name, value)
            or members.buffer_kind(owner, name, value)) then
         found[path] = {owner, name, value}
      end
   end})
   return found
end

local function check_paths(title, module, found, given, strict)
   local unexpected, missing = {}, {}
   for path in pairs(given) do
      if not found[path] then unexpected[#unexpected + 1] = tostring(path) end
   end
   for path in pairs(found) do
      if strict and not given[path] then missing[#missing + 1] = path end
   end
   table.sort(unexpected)
   table.sort(missing)
   if #unexpected > 0 then
      torch.raise(("%s: %s has no %s"):format(title, torch.type(module),
         table.concat(unexpected, ", ")))
   elseif #missing > 0 then
      torch.raise(("%s: missing: %s"):format(title, table.concat(missing, ", ")))
   end
end

local take = args.signature [[functional_call(module: table, parameters: table, args: any?,
   tie_weights: boolean = true, strict: boolean = false)]]

-- Unpacks a list of arguments. A value that is not a plain table is the only argument.
local function arguments(list)
   if list == nil then return {n = 0} end
   if type(list) ~= "table" or getmetatable(list) then return {n = 1, list} end
   return {n = list.n or #list, table.unpack(list, 1, list.n or #list)}
end

--- Calls a module with other parameters and buffers, without changing the module's own. For paths
--- that are not given the module's own tensors are used.
---
---     local layer = torch.nn.Linear(1, 1)
---     local weight, bias = torch.tensor {{2.0}}, torch.tensor {1.0}
---     local parameters = {weight = weight, bias = bias}
---     print(torch.func.functional_call(layer, parameters, torch.tensor {{3.0}}))
---     --> tensor([[7.]])
---@param module nn.Module
---@param parameters table<string, Tensor>|table<string, Tensor>[]  the tensors by path
---@param args? any|any[]  an argument, or the list of them
---@param options? {tie_weights: boolean, strict: boolean}  tie_weights: a tensor given for one path
--- of a shared tensor replaces it at all its paths; strict: all paths must be given
---@return any ...
function M.functional_call(...)
   local a = take(...)
   local title = "functional_call"
   if not class.isinstance(a.module, Module) then
      args.refuse(title, "module", "a module", a.module)
   end
   local given, found = merge(title, a.parameters), places(a.module)
   check_paths(title, a.module, found, given, a.strict and not a.tie_weights)

   local by_tensor, changes = {}, {}
   if a.tie_weights then
      for path, value in pairs(given) do
         local tensor = found[path][3]
         if by_tensor[tensor] and by_tensor[tensor] ~= value then
            torch.raise(("functional_call: %s and another path of the same tensor are given "
               .. "different ones; {tie_weights = false} allows it"):format(path))
         end
         by_tensor[tensor] = value
      end
   end
   local missing = {}
   for path, place in pairs(found) do
      local value = given[path] or by_tensor[place[3]]
      if value then
         changes[#changes + 1] = {owner = place[1], field = place[2], own = place[3], value = value}
      elseif a.strict then
         missing[#missing + 1] = path
      end
   end
   if #missing > 0 then
      table.sort(missing)
      torch.raise("functional_call: missing: " .. table.concat(missing, ", "))
   end

   local function put(which)
      for _, change in ipairs(changes) do
         local owner, field = change.owner, change.field
         rawset(owner, field, change[which])
         if which == "own" then
            members.lend(owner, field, change.lent)
         elseif members.counts_as_parameter(owner, field, change.own) then
            change.lent = members.lend(owner, field, true)
         end
      end
   end
   local lent = true
   local scope <close> = scopes.new(function()
      put "own"
      lent = false
   end)
   -- A coroutine that is never resumed does not close its variables. In this case, the module's own
   -- tensors are put back when the scope is collected.
   if coroutine.isyieldable() then
      scope.guard = setmetatable({}, {__gc = function() if lent then put "own" end end})
   end
   put "value"
   local list = arguments(a.args)
   local results = table.pack(a.module(table.unpack(list, 1, list.n)))
   return table.unpack(results, 1, results.n)
end

-- Returns a table from paths to tensors, each of which stacks the tensors that the models of an
-- ensemble have at that path.
local function stack(dicts, what)
   local stacked = {}
   for path, first in pairs(dicts[1]) do
      local list = {}
      for i, dict in ipairs(dicts) do
         local tensor = dict[path]
         if tensor == nil or tensor.requires_grad ~= first.requires_grad
            or table.concat(tensor.shape, ",") ~= table.concat(first.shape, ",") then
            torch.raise(("stack_module_state: %s %s of model %d is not as that of the first")
               :format(what, path, i))
         end
         list[i] = tensor
      end
      local result = torch.stack(list)
      stacked[path] = first.requires_grad and result:detach():requires_grad_() or result
   end
   return stacked
end

local function dictionary(iterator)
   local dict = {}
   for path, tensor in iterator do dict[path] = tensor end
   return dict
end

--- Stacks the parameters and buffers of models of one class along a new first dimension, for vmap
--- over an ensemble.
---@param models nn.Module[]
---@return table<string, Tensor> parameters  leaf tensors that require gradients
---@return table<string, Tensor> buffers
function M.stack_module_state(models)
   if type(models) ~= "table" or #models == 0 then
      args.refuse("stack_module_state", "models", "a list of at least one module", models)
   end
   local parameters, buffers = {}, {}
   for i, model in ipairs(models) do
      if not class.isinstance(model, Module) then
         args.refuse("stack_module_state", "model " .. i, "a module", model)
      end
      if getmetatable(model) ~= getmetatable(models[1])
         or model.training ~= models[1].training then
         torch.raise(("stack_module_state: model %d: expected a %s in the first one's mode, got %s")
            :format(i, torch.type(models[1]), torch.type(model)))
      end
      parameters[i] = dictionary(model:named_parameters())
      buffers[i] = dictionary(model:named_buffers())
   end
   return stack(parameters, "parameter"), stack(buffers, "buffer")
end

--- Makes a module without initializing its parameters, which saves time if the module is loaded
--- afterwards. The parameters' values are undefined, and no random numbers are drawn.
---@param cls table  a module class
---@param ... any  arguments of the constructor
---@return nn.Module
function M.skip_init(cls, ...)
   local info = type(cls) == "table" and getmetatable(cls)
   if not (type(info) == "table" and info.ancestors and info.ancestors[Module]) then
      args.refuse("nn.utils.skip_init", "module_cls", "a module class", cls)
   end
   local init, fillers = torch.nn.init, {}
   for name, fn in pairs(init) do
      if name:sub(-1) == "_" then fillers[name] = fn end
   end
   local _ <close> = scopes.new(function()
      for name, fn in pairs(fillers) do init[name] = fn end
   end)
   for name in pairs(fillers) do
      init[name] = function(tensor) return tensor end
   end
   return (cls(...))
end

return M
