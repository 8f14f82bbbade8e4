-- FSDPStrategy.lua - options for training a module whose parameters are sharded over several ranks.

local args = require "tlua.args"
local class = require "tlua.class"
local device_mesh = require "tlua.distributed.device_mesh"
local Module = require "tlua.nn.modules.Module"

local NAME <const> = "trainer.FSDPStrategy"

local signature = args.signature [[trainer.FSDPStrategy(auto_wrap_policy: any?,
   state_dict_type: string = 'full', reshard_after_forward: boolean?, mp_policy: object?,
   offload_policy: object?, mesh: object?)]]

--- Options for sharding by torch.distributed.fsdp.fully_shard. An object of this class is a value
--- of the trainer's option `strategy`. The string "fsdp" as this option stands for an object with
--- the default options, and a mesh stands for an object with this mesh.
---
---     local strategy = torch.trainer.FSDPStrategy {
---        auto_wrap_policy = {torch.nn.TransformerEncoderLayer},
---        state_dict_type = "sharded"}
---     print(strategy.state_dict_type)
---     --> sharded
---@class trainer.FSDPStrategy
---@field state_dict_type string  "full" or "sharded"
---@overload fun(options?: table): trainer.FSDPStrategy
local FSDPStrategy = class.class(NAME)

-- Returns a function(module) that tells whether a module's parameters are gathered separately from
-- those of other modules.
local function policy_of(given)
   if given == nil then return function() return false end end
   local classes, is_class = given, type(given) == "table" and rawget(given, "__name")
   if args.is_callable(given) and not is_class then return given end
   if is_class then classes = {given} end
   local expected <const> = "a class of modules, a list of them, or a function of a module"
   if type(classes) ~= "table" or #classes == 0 then
      args.refuse(NAME, "auto_wrap_policy", expected, given)
   end
   for i, kind in ipairs(classes) do
      if type(kind) ~= "table" or not rawget(kind, "__name")
         or not class.issubclass(kind, Module) then
         args.refuse(NAME, ("auto_wrap_policy[%d]"):format(i), "a class of modules", kind)
      end
   end
   return function(module)
      for _, kind in ipairs(classes) do
         if class.isinstance(module, kind) then return true end
      end
      return false
   end
end

---@param options? {auto_wrap_policy: any, state_dict_type: string, reshard_after_forward: boolean,
--- mp_policy: distributed.fsdp.MixedPrecisionPolicy, offload_policy:
--- distributed.fsdp.CPUOffloadPolicy, mesh: distributed.DeviceMesh} auto_wrap_policy: the modules
--- that are gathered one at a time, as a class, a list of classes or a function(module) that
--- returns a boolean; without this option all parameters are gathered together. state_dict_type: a
--- checkpoint is one file with whole tensors ("full"), or a folder to which each rank writes its
--- shards ("sharded"). mesh: the ranks over which parameters are sharded; see Trainer's strategy.
--- The other options are those of fully_shard
function FSDPStrategy:__init(...)
   local a = signature(...)
   if a.state_dict_type ~= "full" and a.state_dict_type ~= "sharded" then
      args.refuse(NAME, "state_dict_type", '"full" or "sharded"', a.state_dict_type)
   end
   if a.mesh and not class.isinstance(a.mesh, device_mesh.DeviceMesh) then
      args.refuse(NAME, "mesh", "a mesh (see torch.distributed.init_device_mesh)", a.mesh)
   end
   self.is_unit = policy_of(a.auto_wrap_policy)
   for _, name in ipairs {"state_dict_type", "reshard_after_forward", "mp_policy",
      "offload_policy", "mesh"} do
      self[name] = a[name]
   end
end

return FSDPStrategy
