-- command.lua - `tlua fit config.lua`: trains as a configuration file says. Its values can be
-- overridden on the command line.

local torch = require "tlua"
local args = require "tlua.args"
local configs = require "tlua.trainer.config"
local sweeps = require "tlua.trainer.sweep"

local M = {}

local USAGE <const> = [[
usage: tlua fit config.lua [--trainer.option value] [--model.option value] [--data.option value]
Trains by a configuration: a Lua file that returns a table with the fields
  build        function(model, data): the trainer.Module, and the loaders or a trainer.DataModule
  model        options for it
  data         options for it
  trainer      options of trainer.Trainer
  seed         what the random numbers start from
  ckpt_path    the checkpoint from which it goes on; "last": the newest one, if any
  sweep        options of --sweep, and space = {["model.lr"] = {0.1, 0.01}}
A value may be given as --model.width=64 or --model.width 64; a list as Lua: --model.sizes "{8, 8}".
  --seed n, --ckpt_path path
  --print-config   prints the configuration as Lua, and ends
  --sweep grid     trains once for each combination of values, each time in a process of its own:
                   --sweep.model.width "{32, 64}" --sweep.model.lr "{0.1, 0.01}"
  --sweep random   draws values:
                   --sweep.trials 20 --sweep.model.lr "{min = 1e-4, max = 1, log = true}"
  --sweep halving  trains all for --sweep.min_epochs epochs (1), and the best third three times as
                   long, until trainer.max_epochs; --sweep.factor 3
  --sweep asha     as halving, but no process waits for others: a trial goes on as soon as it is
                   among the best third of those that have trained as long
  --sweep.monitor val_loss, --sweep.mode min, --sweep.workers 1 (processes at a time),
  --sweep.seed 0, --sweep.folder sweep: the same command goes on with a sweep that was killed
]]

local fail <const> = configs.fail

local function parse(words)
   local path, settings, prints, trial = nil, {}, false, nil
   local i = 1
   while i <= #words do
      local word = words[i]
      local name, value = word:match "^%-%-([%w_.-]+)=(.*)$"
      if word == "--help" then return nil end
      if word == "--print-config" then
         prints = true
      elseif name then
         settings[#settings + 1] = {name, value}
      elseif word:find "^%-%-" then
         i = i + 1
         if not words[i] then fail(word .. ": expected a value behind it") end
         settings[#settings + 1] = {word:sub(3), words[i]}
      elseif path then
         fail(("unexpected argument '%s'"):format(word))
      else
         path = word
      end
      i = i + 1
   end
   if not path then fail "expected a configuration" end
   for n = #settings, 1, -1 do
      if settings[n][1] == "trial" then trial = table.remove(settings, n)[2] end
   end
   return path, settings, prints, trial
end

-- Returns whether the command line has the option --sweep. Raises an error if it has options of a
-- sweep, such as --sweep.trials, without it.
local function asks_for_sweep(settings)
   local options
   for _, setting in ipairs(settings) do
      if setting[1] == "sweep" then return true end
      options = options or setting[1]:find "^sweep%." and setting[1]
   end
   if options then
      fail(("--%s: expected --sweep grid, random, halving or asha, too"):format(options))
   end
   return false
end

local function train(config, trial)
   local trainer = torch.trainer
   local save
   if trial then
      save = sweeps.prepare_trial(config, trial)
      if not save then return end
   end
   if config.seed then torch.manual_seed(config.seed) end
   local run = trainer.Trainer(config.trainer or {})
   local module, train_loader, val_loader = config.build(config.model or {}, config.data or {})
   run:fit(module, train_loader, val_loader, {ckpt_path = config.ckpt_path})
   if save and run.is_global_zero then save(run) end
   local names = {}
   for name in pairs(run.callback_metrics) do names[#names + 1] = name end
   table.sort(names)
   if run.is_global_zero then
      print(("%d epochs, %d steps"):format(run.current_epoch, run.global_step))
      for _, name in ipairs(names) do
         print(("   %-24s "
            .. "%.6g"):format(name, args.to_number("fit", name, run.callback_metrics[name])))
      end
   end
end

--- Runs `tlua fit` with the arguments that follow the command's name. Prints a message and returns
--- false if the arguments or the configuration are wrong; other errors are raised again.
---@param words string[]
---@return boolean  whether the command succeeded
function M._fit(words)
   local succeeded = true
   local ok, problem = pcall(function()
      local path, settings, prints, trial = parse(words)
      if not path then
         io.write(USAGE)
         return
      end
      local config = configs.read(path)
      if asks_for_sweep(settings) then
         if prints then fail "--print-config: expected no --sweep" end
         succeeded = sweeps.run(path, config, settings)
         return
      end
      for _, setting in ipairs(settings) do configs.set(config, setting[1], setting[2]) end
      if prints then print(configs.text(config)) else train(config, trial) end
   end)
   if ok then return succeeded end
   if type(problem) == "table" and problem.usage then
      io.stderr:write(("tlua fit: %s\n%s"):format(problem.usage, USAGE))
      return false
   end
   error(problem, 0)
end

M.command = M._fit

return M
