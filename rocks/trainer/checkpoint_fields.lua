-- checkpoint_fields.lua - checks the fields of a checkpoint before a training continues from it, so
-- that a damaged or foreign file is refused before anything is loaded.

local torch = require "tlua"
local args = require "tlua.args"

local M = {}

local function is_count(value) return math.type(value) == "integer" and value >= 0 end

local function is_table(value) return type(value) == "table" and not torch.is_tensor(value) end

local function is_list(value)
   if not is_table(value) then return false end
   local n = 0
   for _, item in pairs(value) do
      if not is_table(item) then return false end
      n = n + 1
   end
   return n == #value
end

local kinds <const> = {
   count = {"an integer of at least 0", is_count},
   positive = {"an integer of at least 1", function(value)
      return math.type(value) == "integer" and value >= 1
   end},
   boolean = {"a boolean", function(value) return type(value) == "boolean" end},
   table = {"a table", is_table},
   list = {"a list of tables", is_list},
   logs = {"a list of tables with names", function(value)
      if not is_list(value) then return false end
      for _, item in ipairs(value) do
         if type(item.name) ~= "string" then return false end
      end
      return true
   end},
   place = {"batch, validated, epoch or done", function(value)
      return value == "batch" or value == "validated" or value == "epoch" or value == "done"
   end},
}

-- Lists the fields of a checkpoint: the path of each field, followed by its kind. A question mark
-- means that the field may be missing.
local weights <const> = {"epoch count", "global_step count", "state_dict table",
   "hyper_parameters table?"}
local training <const> = {"loops table", "loops.batch count", "loops.stepped count",
   "loops.total_batches count", "loops.accumulated count", "loops.accumulate positive",
   "loops.place place?", "loops.is_last boolean?", "loops.should_stop boolean",
   "loops.steps_plateau boolean?", "optimizer_states list", "lr_schedulers list",
   "callbacks table", "scaler table?", "metrics table", "metrics.callback table",
   "metrics.logged table", "metrics.bar table", "ranks list"}
local of_rank <const> = {"random table", "loader table?", "gradients table?", "results logs?",
   "buffers table?"}

-- Checks the listed fields of the table `state`. `prefix` is put before their names in error
-- messages.
local function check(who, state, fields, prefix)
   for _, field in ipairs(fields) do
      local path, kind, optional = field:match "^(%S+) (%a+)(%??)$"
      local value = state
      for name in path:gmatch "[^.]+" do value = value[name] end
      local expectation, fits = kinds[kind][1], kinds[kind][2]
      if not (fits(value) or value == nil and optional == "?") then
         args.refuse(who, prefix .. path, expectation, value)
      end
   end
end

--- Raises an error unless a checkpoint has the fields that a trainer saves.
---@param who string  the beginning of the message, which names the file
---@param state table
function M.check(who, state)
   check(who, state, weights, "")
   if state.loops == nil then return end
   check(who, state, training, "")
   for i, own in ipairs(state.ranks) do check(who, own, of_rank, ("ranks[%d]."):format(i)) end
end

return M
