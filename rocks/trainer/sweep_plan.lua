-- sweep_plan.lua - the options of a sweep, and the values of its trials.

local torch = require "tlua"
local args = require "tlua.args"
local configs = require "tlua.trainer.config"
local suggest = require "tlua.utils.suggest"

local M = {}

local fail <const> = configs.fail

local methods <const> = {grid = true, random = true, halving = true, asha = true}
local expected_methods <const> = "grid, random, halving or asha"

-- The table has the default of each option. The value false means that there is no default.
local defaults <const> = {method = false, monitor = "val_loss", mode = "min", trials = false,
   workers = 1, folder = "sweep", seed = 0, min_epochs = 1, factor = 3}

-- Options -----------------------------------------------------------------------------------------

local function check_option(name, value)
   local default = defaults[name]
   local whole = name == "trials" or math.type(default) == "integer"
   local least = name == "factor" and 2 or name == "seed" and 0 or 1
   if name == "method" and not methods[value] then
      fail(("--sweep: expected %s, got %s%s"):format(expected_methods, tostring(value),
         suggest.hint(tostring(value), methods)))
   elseif name == "mode" and value ~= "min" and value ~= "max" then
      fail(("--sweep.mode: expected min or max, got %s"):format(tostring(value)))
   elseif whole and (math.type(value) ~= "integer" or value < least) then
      fail(("--sweep.%s: expected an integer of at least %d, got %s"):format(name, least,
         tostring(value)))
   elseif not whole and type(value) ~= "string" then
      fail(("--sweep.%s: expected a text, got %s"):format(name, args.describe(value)))
   end
end

local function is_path(name)
   return name == "seed" or name:find "^model%." or name:find "^data%." or name:find "^trainer%."
end

-- Returns three tables: the options of the sweep, its space of values, and the remaining words of
-- the command line, which apply to all trials.
local function read_options(config, settings)
   local options, space, words = {}, {}, {}
   for name, value in pairs(config.sweep or {}) do
      if name == "space" then
         if type(value) ~= "table" then
            fail(("sweep.space: expected values by name, got %s"):format(args.describe(value)))
         end
         for path, values in pairs(value) do space[path] = values end
      elseif name == "method" then
         fail "sweep: unknown field method; the method is an argument, such as --sweep grid"
      elseif defaults[name] == nil then
         fail(("sweep: unknown field %s%s"):format(tostring(name), suggest.hint(tostring(name),
            defaults)))
      else
         options[name] = value
      end
   end
   for _, setting in ipairs(settings) do
      local name, text = setting[1], setting[2]
      local own = name:match "^sweep%.(.+)$"
      if name == "sweep" then
         options.method = text
      elseif own and defaults[own] ~= nil and own ~= "method" then
         local kind = type(defaults[own])
         options[own] = kind == "string" and text or configs.value_of(text)
      elseif own and is_path(own) then
         space[own] = configs.value_of(text)
      elseif own then
         fail(("unknown option --%s%s"):format(name, suggest.hint(own, defaults)))
      else
         words[#words + 1] = ("--%s=%s"):format(name, text)
      end
   end
   for name, value in pairs(options) do check_option(name, value) end
   for name, default in pairs(defaults) do
      if options[name] == nil then options[name] = default end
   end
   if not options.method then fail("--sweep: expected " .. expected_methods) end
   return options, space, words
end

-- The space ---------------------------------------------------------------------------------------

local expected <const> = "expected a list such as {0.1, 0.01}, or {min = 1e-4, max = 0.1, "
   .. "log = true}"

local function check_values(name, values)
   local function refuse(why) fail(("--sweep.%s: %s; %s"):format(name, why, expected)) end
   if type(values) ~= "table" or next(values) == nil then
      refuse("got " .. args.describe(values))
   elseif values.min == nil and values.max == nil then
      if #values == 0 then refuse "got no values" end
      return values
   end
   for key in pairs(values) do
      if key ~= "min" and key ~= "max" and key ~= "log" then
         refuse(("unknown field %s"):format(tostring(key)))
      end
   end
   local low, high = values.min, values.max
   if type(low) ~= "number" or type(high) ~= "number" or low ~= low or high ~= high
      or low >= high then
      refuse "min and max must be numbers, min the lesser"
   elseif high == math.huge or low == -math.huge then
      refuse "min and max must be finite"
   elseif values.log and low <= 0 then
      refuse "log needs min above 0"
   end
   return {low, high}
end

local function copy(value)
   if type(value) ~= "table" or getmetatable(value) then return value end
   local result = {}
   for key, item in pairs(value) do result[key] = copy(item) end
   return result
end

--- Returns a copy of a configuration in which the fields `names` have a trial's values.
---@param config table
---@param names string[]
---@param values table<string, any>
---@return table
function M.with_values(config, names, values)
   local result = copy(config)
   for _, name in ipairs(names) do configs.set(result, name, configs.text_of(values[name])) end
   return result
end

-- Checks that the configuration accepts all values of the space. Returns the sorted names of the
-- fields in the space.
local function check_space(config, space, method)
   local names = {}
   for name in pairs(space) do names[#names + 1] = name end
   table.sort(names, function(a, b) return tostring(a) < tostring(b) end)
   if #names == 0 then
      fail '--sweep: expected values to try, such as --sweep.model.lr "{0.1, 0.01}"'
   end
   for _, name in ipairs(names) do
      if type(name) ~= "string" or not is_path(name) then
         fail(("sweep.space: expected names such as model.lr, got %s"):format(tostring(name)))
      end
      for _, value in ipairs(check_values(name, space[name])) do
         M.with_values(config, {name}, {[name] = value})
      end
      if (method == "halving" or method == "asha") and name == "trainer.max_epochs" then
         fail(("--sweep.trainer.max_epochs: %s chooses the number of epochs itself"):format(method))
      end
   end
   return names
end

-- Trials ------------------------------------------------------------------------------------------

-- Chooses a value from the values of one field. The number u selects the value; it is at least 0
-- and less than 1.
local function pick(values, u)
   if values.min == nil then return values[1 + math.floor(u * #values)] end
   local low, high = values.min, values.max
   if math.type(low) == "integer" and math.type(high) == "integer" and not values.log then
      return low + math.floor(u * (high - low + 1))
   end
   local value = values.log and math.exp(math.log(low) + u * (math.log(high) - math.log(low)))
      or low + u * (high - low)
   if math.type(low) == "integer" and math.type(high) == "integer" then
      return math.floor(value + 0.5)
   end
   return tonumber(("%.6g"):format(value))
end

local function random_trials(sweep)
   local generator, trials = torch.Generator():manual_seed(sweep.seed), {}
   for number = 1, sweep.trials_count do
      local draws = torch.rand(#sweep.names, {dtype = "float64", generator = generator}):tolist()
      local values = {}
      for i, name in ipairs(sweep.names) do values[name] = pick(sweep.space[name], draws[i]) end
      trials[number] = {number = number, values = values, status = "waiting"}
   end
   return trials
end

local function grid_trials(sweep)
   local trials = {}
   local function extend(i, values)
      local name = sweep.names[i]
      if not name then
         trials[#trials + 1] = {number = #trials + 1, values = values, status = "waiting"}
         return
      end
      if sweep.space[name].min ~= nil then
         fail(("--sweep.%s: a grid needs a list of values, got a range; give --sweep.trials to "
            .. "draw values at random"):format(name))
      end
      for _, value in ipairs(sweep.space[name]) do
         local more = copy(values)
         more[name] = value
         extend(i + 1, more)
      end
   end
   extend(1, {})
   return trials
end

-- Returns the numbers of epochs after which trials are compared. The list is {false} if all trials
-- are trained to their end.
local function budgets_of(sweep, config)
   if sweep.method ~= "halving" and sweep.method ~= "asha" then return {false} end
   local most = config.trainer and config.trainer.max_epochs
   if math.type(most) ~= "integer" or most <= sweep.min_epochs then
      fail(("--sweep %s: expected trainer.max_epochs above --sweep.min_epochs (%d), got %s"):format(
         sweep.method, sweep.min_epochs, tostring(most)))
   end
   local list, epochs = {}, sweep.min_epochs
   while epochs < most do
      list[#list + 1] = epochs
      epochs = epochs * sweep.factor
   end
   list[#list + 1] = most
   return list
end

--- Makes a sweep: reads its options and chooses the values of its trials.
---@param path string
---@param config table
---@param settings table[]
---@return table
function M.make(path, config, settings)
   local sweep, space, words = read_options(config, settings)
   sweep.path, sweep.space, sweep.words = path, space, words
   for _, word in ipairs(words) do configs.set(config, word:match "^%-%-(.-)=(.*)$") end
   sweep.names = check_space(config, space, sweep.method)
   if sweep.method == "random" and not sweep.trials then
      fail "--sweep random: expected the number of trials, such as --sweep.trials 20"
   elseif sweep.method == "grid" and sweep.trials then
      fail "--sweep.trials: a grid has as many trials as its lists of values make"
   end
   sweep.budgets = budgets_of(sweep, config)
   sweep.trials_count = sweep.trials
   sweep.trials = sweep.trials and random_trials(sweep) or grid_trials(sweep)
   return sweep
end

--- Returns the part of a sweep on which its results depend, as plain data.
---@param sweep table
---@return table
function M.description(sweep)
   local space = {}
   for i, name in ipairs(sweep.names) do
      space[i] = ("%s = %s"):format(name, configs.show(sweep.space[name]))
   end
   local budgets = {}
   for i, budget in ipairs(sweep.budgets) do budgets[i] = tostring(budget or "all") end
   return {config = sweep.path, method = sweep.method, monitor = sweep.monitor, mode = sweep.mode,
      words = table.concat(sweep.words, " "), space = table.concat(space, "; "),
      seed = sweep.seed, budgets = table.concat(budgets, " "),
      -- The number of trials of a random search may grow later, because more trials do not change
      -- the first ones. So it is left out of the description.
      trials = sweep.method ~= "random" and #sweep.trials or nil}
end

return M
