-- state_dict.lua - states of models that are split over ranks, as whole tensors.

local torch = require "tlua"
local args = require "tlua.args"
local class = require "tlua.class"
local placement = require "tlua.distributed.placement"
local DDP = require "tlua.distributed.DistributedDataParallel"
local Module = require "tlua.nn.Module"

local M = {}

local take_get = args.signature [[get_model_state_dict(model: any,
   full_state_dict: boolean = false, cpu_offload: boolean = false)]]
local take_set = args.signature [[set_model_state_dict(model: any, model_state_dict: table,
   full_state_dict: boolean = false, strict: boolean = true)]]

-- The model, without what wraps it.
local function check(title, model)
   if not class.isinstance(model, Module) then args.refuse(title, "model", "a module", model) end
   return class.isinstance(model, DDP) and model.module or model
end

-- Path -> parameter.
local function parameters(model)
   local list = {}
   for path, p in model:named_parameters() do list[path] = p end
   return list
end

--- A model's state by paths. With full_state_dict the whole tensors, on every rank, as the model
--- had them before it was split; all ranks call it. Else each rank's own parts.
---@param model nn.Module
---@param options? {full_state_dict: boolean, cpu_offload: boolean}
---@return table<string, Tensor>
function M.get_model_state_dict(...)
   local a = take_get(...)
   local model = check("get_model_state_dict", a.model)
   local state, named, paths = model:state_dict(), parameters(model), {}
   for path in pairs(state) do paths[#paths + 1] = path end
   table.sort(paths) -- all ranks in one order
   for _, path in ipairs(paths) do
      if a.full_state_dict and named[path] then state[path] = placement.full(named[path]) end
      if a.cpu_offload then state[path] = state[path]:cpu() end
   end
   return state
end

--- Copies a state into a model: with full_state_dict whole tensors, of which each rank takes its
--- part, else parts.
---@param model nn.Module
---@param model_state_dict table<string, Tensor>
---@param options? {full_state_dict: boolean, strict: boolean}
function M.set_model_state_dict(...)
   local a = take_set(...)
   local model = check("set_model_state_dict", a.model)
   local state, named = {}, parameters(model)
   for path, tensor in pairs(a.model_state_dict) do
      local p = named[path]
      if p and a.full_state_dict and torch.is_tensor(tensor) then
         local shape = placement.of(p).shape
         if table.concat(shape, ",") ~= table.concat(tensor.shape, ",") then
            torch.raise(("set_model_state_dict: %s: expected shape (%s), got (%s)"):format(path,
               table.concat(shape, ", "), table.concat(tensor.shape, ", ")))
         end
         tensor = placement.part(p, tensor)
      end
      state[path] = tensor
   end
   return model:load_state_dict(state, {strict = a.strict})
end

return M
