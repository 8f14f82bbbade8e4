-- command.lua - the command `tlua hub`, which packs, lists and downloads models.

local torch = require "tlua"
local suggest = require "tlua.utils.suggest"

local M = {}

local USAGE <const> = [[
usage: tlua hub pack model.lua [file.safetensors]   writes weights and architecture as one file
       tlua hub list [repository]      lists a repository's models; without one, the fetched files
       tlua hub help repository [model]   prints what is known about a model
       tlua hub download repository    or URL: fetches the files and prints the folder that has them
       tlua hub verify                 compares all fetched files with their checksums
A repository is owner/name, owner/name:revision, a folder, a packed file or its URL. model.lua is a
program of yours that returns the table for torch.hub.pack.
Options: --source github, --offline, --force-reload, --endpoint URL
]]

local function fail(text) error({usage = text}, 0) end

local options <const> = {["--source"] = "source", ["--endpoint"] = "endpoint"}
local switches <const> = {["--offline"] = "offline", ["--force-reload"] = "force_reload"}

-- Splits the arguments into words that are not options and a table of options.
local function parse(words)
   local plain, given, i = {}, {}, 1
   while i <= #words do
      local word = words[i]
      local name, value = word:match "^(%-%-[%w-]+)=(.*)$"
      name = name or word
      if switches[name] and not value then
         given[switches[name]] = true
      elseif options[name] then
         if not value then i = i + 1 end
         given[options[name]] = value or words[i] or fail(name .. ": expected a value after it")
      elseif name:find "^%-." and name ~= "--help" then
         local known = {}
         for key in pairs(options) do known[key] = true end
         for key in pairs(switches) do known[key] = true end
         fail(("unknown option %s%s"):format(name, suggest.hint(name, known)))
      else
         plain[#plain + 1] = word
      end
      i = i + 1
   end
   return plain, given
end

local actions = {}

function actions.pack(_, path, target)
   if not path then fail "pack: expected a file such as model.lua" end
   local file <close>, message = io.open(path, "rb")
   if not file then fail(message) end
   local chunk, problem = load(file:read "a" or "", "@" .. path, "t", package.loaded._G)
   if not chunk then fail(problem) end
   local model = chunk()
   if type(model) ~= "table" then
      fail(("%s: expected a table as its result, got a %s"):format(path, type(model)))
   end
   local written = torch.hub.pack(model, target)
   print(("%s  %s"):format(require "tlua.hub.download".sha256(written), written))
end

function actions.list(given, repo)
   if repo then
      for _, name in ipairs(torch.hub.list(repo, given)) do print(name) end
      return
   end
   for _, entry in ipairs(require "tlua.hub.cache".contents()) do
      print(("%12d  %s"):format(entry.bytes, entry.name))
   end
   print(torch.hub.get_dir())
end

function actions.help(given, repo, model)
   if not repo then fail "help: expected a repository" end
   given.model = model
   print(torch.hub.help(repo, given))
end

function actions.download(given, repo)
   if not repo then fail "download: expected a repository or a URL" end
   print(torch.hub.download(repo, given))
end

function actions.verify()
   local count, failures = require "tlua.hub.cache".verify()
   for _, failure in ipairs(failures) do print(failure) end
   print(("%d files, %d damaged"):format(count, #failures))
   return #failures == 0
end

local most <const> = {pack = 2, list = 1, help = 2, download = 1, verify = 0}

--- Runs `tlua hub` with the arguments that follow the command's name.
---@param words string[]
---@return boolean  whether the command succeeded
function M.command(words)
   local ok, result = pcall(function()
      local plain, given = parse(words)
      local name = table.remove(plain, 1)
      for _, word in ipairs {name, table.unpack(plain)} do
         if word == "--help" then
            io.write(USAGE)
            return true
         end
      end
      if not actions[name] then
         fail(name and ("there is no action %s%s"):format(name, suggest.hint(name, actions))
            or "expected pack, list, help, download or verify")
      end
      local extra = plain[most[name] + 1]
      if extra then fail(("unexpected argument '%s'"):format(extra)) end
      return actions[name](given, table.unpack(plain))
   end)
   if ok then return result ~= false end
   if type(result) == "table" and result.usage then
      io.stderr:write(("tlua hub: %s\n%s"):format(result.usage, USAGE))
   else
      io.stderr:write(("tlua hub: %s\n"):format((tostring(result):gsub("^%[C%]:? ?", ""))))
   end
   return false
end

return M
