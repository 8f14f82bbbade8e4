-- StateDictOptions.lua - the options shared by the functions of state_dict.lua. A program passes
-- them as one object to several calls, or one by one.

local torch = require "tlua"
local args = require "tlua.args"
local class = require "tlua.class"

local take = args.signature [[StateDictOptions(full_state_dict: boolean = false,
   cpu_offload: boolean = false, ignore_frozen_params: boolean = false, strict: boolean = true,
   broadcast_from_rank0: boolean = false, keep_submodule_prefixes: boolean = true,
   flatten_optimizer_state_dict: boolean = false, dsd_fqn_modifiers: string = '_fqn_modifiers')]]

-- PyTorch's options that tlua does not need. Each name is mapped to the only allowed value, and to
-- advice for the error that any other value raises.
local fixed <const> = {
   keep_submodule_prefixes = {true, "paths begin at the model that is given; give the submodule "
      .. "for paths without its prefix"},
   flatten_optimizer_state_dict = {false, "the state of an optimizer has the paths of parameters "
      .. "as its keys, and distributed.checkpoint.save takes its nested tables"},
   dsd_fqn_modifiers = {"_fqn_modifiers", "modules have no modifiers of names; change the keys of "
      .. "the table that is returned"},
}

---     local checkpoint = torch.distributed.checkpoint
---     local options = checkpoint.StateDictOptions {full_state_dict = true}
---     local model = torch.nn.Linear(2, 1)
---     local state = checkpoint.get_model_state_dict(model, {options = options})
---     print(options.cpu_offload, state.weight.shape)
---     --> false	torch.Size([1, 2])
---@class distributed.checkpoint.StateDictOptions
---@field full_state_dict boolean  whole tensors in place of each rank's parts
---@field cpu_offload boolean  results are on the CPU; with full_state_dict, only rank 0 gets them
---@field ignore_frozen_params boolean  leaves out parameters that require no gradient
---@field strict boolean  the names of a loaded state must equal the model's
---@field broadcast_from_rank0 boolean  all ranks load rank 0's state; needs full_state_dict
---@field keep_submodule_prefixes boolean  always true
---@field flatten_optimizer_state_dict boolean  always false
---@field dsd_fqn_modifiers string  always "_fqn_modifiers"
---@overload fun(options?: table): distributed.checkpoint.StateDictOptions
local StateDictOptions = class.class("distributed.checkpoint.StateDictOptions")

function StateDictOptions:__init(...)
   for name, value in pairs(take(...)) do
      local allowed = fixed[name]
      if allowed and value ~= allowed[1] then
         torch.raise(("StateDictOptions: %s: expected %s, got %s: %s"):format(name,
            tostring(allowed[1]), tostring(value), allowed[2]))
      end
      self[name] = value
   end
end

local defaults <const> = take()

--- Fills in missing arguments of a function from the argument `options` or the defaults.
---@param title string  the function's name, for messages
---@param a table  the function's arguments, which are changed
---@return table a
function StateDictOptions.settle(title, a)
   local options = a.options
   if options and not class.isinstance(options, StateDictOptions) then
      args.refuse(title, "options", "StateDictOptions", options)
   end
   for name, default in pairs(defaults) do
      if options and a[name] ~= nil then
         torch.raise(("%s: %s is given by itself and in options"):format(title, name))
      end
      if options then a[name] = options[name] end
      if a[name] == nil then a[name] = default end
   end
   if a.broadcast_from_rank0 and not a.full_state_dict then
      torch.raise(title .. ": broadcast_from_rank0: rank 0 gives whole tensors; give "
         .. "full_state_dict = true as well")
   end
   return a
end

return StateDictOptions
