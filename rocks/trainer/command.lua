-- command.lua - `tlua fit config.lua`: trains by a configuration, whose values can be set on the
-- command line.

local torch = require "tlua"
local args = require "tlua.args"
local suggest = require "tlua.utils.suggest"

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
A value may be given as --model.width=64 or --model.width 64; a list as Lua: --model.sizes "{8, 8}".
  --seed n, --ckpt_path path
  --print-config   prints the configuration as Lua, and ends
]]

local known <const> = {build = true, model = true, data = true, trainer = true, seed = true,
   ckpt_path = true}

local function fail(text) error({usage = text}, 0) end

-- Returns the value that a text stands for: Lua's numbers, booleans, nil and tables, else the text.
local function value_of(text)
   if text == "nil" then return nil end
   local chunk = (tonumber(text) or text == "true" or text == "false" or text:find "^{.*}$"
      or text:find '^".*"$') and load("return " .. text, "=value", "t", {})
   if not chunk then return text end
   local ok, value = pcall(chunk)
   if not ok then return text end
   return value
end

local function trainer_options()
   require "tlua.trainer.Trainer"
   return args.declaration "trainer.Trainer"
end

local function set(config, path, text)
   local group, name = path:match "^(%w+)%.([%w_.]+)$"
   if not group then
      if path == "model" or path == "data" or path == "trainer" then
         fail(("--%s: expected the name of one option, such as --%s.%s=%s; got --%s"):format(path,
            path, path == "trainer" and "max_epochs" or "width", path == "trainer" and "3" or "64",
            path))
      elseif path == "print-config" then
         fail(("--print-config: expected no value, got %s"):format(text))
      end
      if path ~= "seed" and path ~= "ckpt_path" then
         fail(("unknown option --%s%s"):format(path, suggest.hint(path, {"seed", "ckpt_path",
            "trainer", "model", "data", "print-config"})))
      end
      config[path] = value_of(text)
      return
   end
   if group ~= "trainer" and group ~= "model" and group ~= "data" then
      fail(("unknown option --%s: expected --trainer., --model. or --data."):format(path))
   end
   config[group] = config[group] or {}
   if group == "trainer" then
      local options = trainer_options()
      if not options.by_name[name] then
         fail(("unknown option --%s%s"):format(path, suggest.hint(name, options.by_name)))
      end
      config.trainer[name] = value_of(text)
      return
   end
   local at = config[group]
   local parts = {}
   for part in name:gmatch "[^.]+" do parts[#parts + 1] = part end
   for i = 1, #parts - 1 do
      at = at[parts[i]]
      if type(at) ~= "table" then
         fail(("unknown option --%s: %s is no table in the configuration"):format(path, parts[i]))
      end
   end
   local last = parts[#parts]
   local old, new = at[last], value_of(text)
   if old == nil then
      fail(("unknown option --%s: the configuration's table %s has no such field%s"):format(path,
         group, suggest.hint(last, at)))
   end
   if type(old) == "string" and new ~= nil then new = text end
   if new ~= nil and type(new) ~= type(old) then
      fail(("--%s: expected a %s, got %s"):format(path, type(old), text))
   end
   if math.type(old) == "integer" and math.type(new) == "float" then
      fail(("--%s: expected an integer, got %s"):format(path, text))
   end
   at[last] = new
end

local function read(path)
   local file, message = io.open(path, "rb")
   if not file then fail(message) end
   local text = file:read "a"
   file:close()
   if not text then fail(path .. ": cannot be read") end
   local chunk, problem = load(text, "@" .. path, "t", package.loaded._G)
   if not chunk then fail(problem) end
   local config = chunk()
   if type(config) ~= "table" then fail(path .. ": expected a table as its result, got "
      .. args.describe(config)) end
   for key in pairs(config) do
      if not known[key] then
         fail(("%s: unknown field %s%s"):format(path, tostring(key), suggest.hint(tostring(key),
            known)))
      end
   end
   if not args.is_callable(config.build) then
      fail(("%s: build: expected a function, got %s"):format(path, args.describe(config.build)))
   end
   for _, group in ipairs {"model", "data", "trainer"} do
      if config[group] ~= nil and type(config[group]) ~= "table" then
         fail(("%s: %s: expected a table, got %s"):format(path, group,
            args.describe(config[group])))
      end
   end
   return config
end

-- Returns a value as Lua.
local function show(value, indent)
   if type(value) == "string" then return ("%q"):format(value) end
   if type(value) ~= "table" or getmetatable(value) then
      return type(value) == "number" and (value == math.huge and "math.huge" or tostring(value))
         or type(value) == "boolean" and tostring(value) or "nil --[[ "
            .. "" .. torch.type(value) .. " ]]"
   end
   local names, lines = {}, {}
   for i = 1, #value do lines[i] = indent .. "   " .. show(value[i], indent .. "   ") .. "," end
   for name in pairs(value) do
      if math.type(name) ~= "integer" or name < 1 or name > #value then names[#names + 1] = name end
   end
   table.sort(names, function(a, b) return tostring(a) < tostring(b) end)
   for _, name in ipairs(names) do
      local key = type(name) == "string" and name:find "^[%a_][%w_]*$" and name
         or ("[%s]"):format(show(name, ""))
      lines[#lines + 1] = ("%s   %s = %s,"):format(indent, key, show(value[name], indent .. "   "))
   end
   if #lines == 0 then return "{}" end
   return "{\n" .. table.concat(lines, "\n") .. "\n" .. indent .. "}"
end

local function print_config(config)
   local whole = {model = config.model, data = config.data, seed = config.seed,
      ckpt_path = config.ckpt_path, trainer = {}}
   for _, parameter in ipairs(trainer_options()) do
      whole.trainer[parameter.name] = parameter.default
   end
   for name, value in pairs(config.trainer or {}) do whole.trainer[name] = value end
   print("return " .. show(whole, ""))
end

local function parse(words)
   local path, settings, prints = nil, {}, false
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
   return path, settings, prints
end

local function train(config)
   local trainer = torch.trainer
   if config.seed then torch.manual_seed(config.seed) end
   local run = trainer.Trainer(config.trainer or {})
   local module, train_loader, val_loader = config.build(config.model or {}, config.data or {})
   run:fit(module, train_loader, val_loader, {ckpt_path = config.ckpt_path})
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

--- Runs `tlua fit` with the arguments that follow the command's name.
---@param words string[]
---@return boolean  whether the command succeeded
function M._fit(words)
   local ok, problem = pcall(function()
      local path, settings, prints = parse(words)
      if not path then
         io.write(USAGE)
         return
      end
      local config = read(path)
      for _, setting in ipairs(settings) do set(config, setting[1], setting[2]) end
      if prints then print_config(config) else train(config) end
   end)
   if ok then return true end
   if type(problem) == "table" and problem.usage then
      io.stderr:write(("tlua fit: %s\n%s"):format(problem.usage, USAGE))
      return false
   end
   error(problem, 0)
end

M.command = M._fit

return M
