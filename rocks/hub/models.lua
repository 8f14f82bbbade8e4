-- models.lua - lists the models that a repository offers, and creates them.

local torch = require "tlua"
local args = require "tlua.args"
local class = require "tlua.class"
local json = require "tlua.utils.json"
local suggest = require "tlua.utils.suggest"
local Repository = require "tlua.hub.Repository"
local architecture = require "tlua.hub.architecture"
local download = require "tlua.hub.download"
local manifest = require "tlua.hub.manifest"
local weights = require "tlua.hub.weights"

local M = {}

local function read_text(path)
   local file <close>, message = io.open(path, "rb")
   local text = file and file:read "a"
   return text, message
end

-- Finding ---------------------------------------------------------------------------------------

-- Calls a function that may require modules in a folder. Afterwards these modules are removed from
-- package.loaded, because another folder may have modules of the same names.
local function call_beside(folder, fn, ...)
   local own = ("%s/?.lua;%s/?/init.lua"):format(folder, folder)
   local before, known = package.path, {}
   for name in pairs(package.loaded) do known[name] = true end
   package.path = own .. ";" .. before
   local result = table.pack(pcall(fn, ...))
   package.path = before
   for name in pairs(package.loaded) do
      if not known[name] and package.searchpath(name, own) then package.loaded[name] = nil end
   end
   if not result[1] then error(result[2], 0) end
   return table.unpack(result, 2, result.n)
end

-- Runs a repository's hubconf.lua. Returns a table with an entry for each function that the file
-- defines.
local function from_code(repo, path)
   local text, message = read_text(path)
   if not text then repo:fail("%s", message) end
   local scope = setmetatable({}, {__index = package.loaded._G})
   local chunk, problem = load(text, "@" .. path, "t", scope)
   if not chunk then repo:fail("%s", problem) end
   local result = call_beside(repo.folder, chunk)
   local found = type(result) == "table" and result or scope
   local entries, texts = {}, rawget(found, "help")
   for name, value in next, found do
      if type(name) == "string" and not name:find "^_" and type(value) == "function" then
         entries[name] = {call = value, path = path, summary = type(texts) == "table"
            and texts[name] or nil}
      end
   end
   return entries
end

-- Returns a table with an entry for each class that Hugging Face's config.json names. The second
-- result is the entry for all other names.
local function from_config(repo, path)
   local text, message = read_text(path)
   local config = text and json.decode(text)
   if type(config) ~= "table" or json.is_array(config) then
      repo:fail("%s: %s", path, message or "expected a JSON object")
   end
   local kind = config.model_type
   if type(kind) ~= "string" then
      repo:fail("%s: model_type: expected a string such as \"bert\", got %s", path,
         args.describe(kind))
   end
   if not torch.has "text" then repo:fail("%s: the package text is needed for it", path) end
   local entries, classes = {}, config.architectures
   for _, name in ipairs(type(classes) == "table" and classes or {}) do
      if type(name) == "string" then
         entries[name] = {config = path, summary = ("%s of Hugging Face's layout"):format(kind)}
      end
   end
   return entries, {config = path}
end

-- Returns a table that maps the names of a repository's models to entries, and the entry for all
-- other names, or nil if there is none.
local function entries_of(repo)
   local a = repo.options
   if repo.file then
      local tensors, metadata = weights.read(repo.file)
      if not tensors then repo:fail("%s", metadata) end
      local found, message = weights.models(repo.file, metadata)
      if not found then repo:fail("%s", message) end
      for _, entry in pairs(found) do entry.tensors, entry.path = tensors, repo.file end
      return found
   end
   local code = repo.is_named and repo.folder .. "/hubconf.lua"
   if code and not download.exists(code) then code = nil end
   local entries = code and a.trust and from_code(repo, code) or {}
   local path = repo:path "hub.json"
   if path then
      local found, message = manifest.parse(read_text(path) or "", false)
      if not found then repo:fail("%s: %s", path, message) end
      for name, entry in pairs(found) do
         entry.path = path
         entries[name] = entry
      end
      return entries
   end
   path = not next(entries) and repo:path "config.json"
   if path then return from_config(repo, path) end
   if next(entries) then return entries end
   if code then
      repo:fail("%s is code, which runs only with trust = true, after you have read it", code)
   end
   repo:fail("%s: there is neither hub.json nor config.json%s", repo.shown,
      repo.is_named and "" or "; code of repositories, such as hubconf.py, is not run")
end

local function sorted(entries)
   local list = {}
   for name in pairs(entries) do list[#list + 1] = name end
   table.sort(list)
   return list
end

-- Returns the entry for a name, and the name. Without a name, returns the only entry, or the entry
-- for the class that config.json names.
local function choose(repo, entries, others, name)
   if name and entries[name] then return entries[name], name end
   local list = sorted(entries)
   if others then return others, name end
   if not name then
      if #list == 1 then return entries[list[1]], list[1] end
      repo:fail("%s: model: expected one of %s, got nil", repo.shown, table.concat(list, ", "))
   end
   repo:fail("%s: there is no model %q%s; there are %s", repo.shown, name,
      suggest.hint(name, entries), table.concat(list, ", "))
end

--- Returns the names of a repository's models.
---@param title string  the function's name, for error messages
---@param source string  the repository
---@param a table  options
---@return string[]
function M.list(title, source, a)
   return sorted((entries_of(Repository.open(title, source, a))))
end

-- Formats an architecture as a text.
local function shown(value)
   return type(value) == "string" and value or json.encode(value)
end

--- Returns a text that describes a model.
---@param title string
---@param source string
---@param name? string
---@param a table
---@return string
function M.help(title, source, name, a)
   local repo = Repository.open(title, source, a)
   local entries, others = entries_of(repo)
   local entry, found = choose(repo, entries, others, name)
   local lines = {("%s: %s"):format(found or repo.shown, entry.summary or "")}
   if entry.architecture then lines[2] = "architecture: " .. shown(entry.architecture) end
   for _, field in ipairs {"options", "config"} do
      if type(entry[field]) == "table" and next(entry[field]) ~= nil then
         lines[#lines + 1] = ("%s: %s"):format(field, json.encode(entry[field]))
      end
   end
   if entry.license then lines[#lines + 1] = "license: " .. entry.license end
   local card = entry.card or not repo.file and not entry.call and repo:path "README.md"
   if card and not entry.card then card = read_text(card) end
   if card then lines[#lines + 1] = "\n" .. card end
   return table.concat(lines, "\n")
end

-- Making ----------------------------------------------------------------------------------------

-- Reads the weights of an entry, compares them with their checksums, and returns them as a table of
-- tensors.
local function state_of(repo, name, entry)
   local path, tensors = entry.path, entry.tensors
   if not tensors then
      local place = entry.weights
      if not place then
         repo:fail("%s: models.%s.weights is missing; with pretrained = false the model has random "
            .. "weights", path, name)
      end
      if place:find "^https://" then
         path = repo:from_url(place, {sum = entry.sha256})
      else
         path = repo:path(place, true)
         local sum = entry.sha256 and repo.options.check_hash ~= false and download.sha256(path)
         if sum and sum ~= entry.sha256 then
            repo:fail("%s: SHA-256: expected %s, got %s", path, entry.sha256, sum)
         end
      end
      local metadata
      tensors, metadata = weights.read(path)
      if not tensors then repo:fail("%s", metadata) end
   end
   if entry.checksums and repo.options.check_hash ~= false then
      local failure = weights.check(path, tensors, entry.checksums)
      if failure then repo:fail("%s", failure) end
   end
   return tensors, path
end

-- Creates the model on the meta device, so that its parameters take no memory before the weights
-- are read. Returns nil if the model's constructor cannot run on the meta device.
local function outline(entry, options, place)
   local previous = torch.get_default_device()
   torch.set_default_device "meta"
   local ok, model = pcall(architecture.build, entry.architecture, options, place)
   torch.set_default_device(previous)
   return ok and model or nil
end

local function from_data(repo, name, entry, given)
   local options, place = {}, ("models.%s.architecture"):format(name)
   if next(given) ~= nil and type(entry.architecture) ~= "string" then
      repo:fail("unknown option %s; the model %s takes none", next(given), name)
   end
   for key, value in pairs(entry.options or {}) do options[key] = value end
   for key, value in pairs(given) do options[key] = value end
   local pretrained = repo.options.pretrained ~= false
   local state, path
   if pretrained then
      state, path = state_of(repo, name, entry)
      local plan = outline(entry, options, place)
      local failure = plan and weights.compare(path, plan:state_dict {names = "pytorch"}, state)
      if failure then repo:fail("%s", failure) end
   end
   local model, message = architecture.build(entry.architecture, options, place)
   if not model then repo:fail("%s: %s", entry.path, message) end
   if not pretrained then return model end
   local ok, problem = pcall(model.load_state_dict, model, state, {names = "pytorch"})
   if not ok then
      repo:fail("%s: %s", path, (tostring(problem):gsub("^[^\n]-:%d+: ", "")))
   end
   return model:eval()
end

local function from_hugging_face(repo, name, given)
   if repo.options.pretrained == false then
      repo:fail("pretrained: expected true for a repository of Hugging Face's layout")
   end
   local options = {architecture = name}
   for key, value in pairs(given) do options[key] = value end
   return args.named(repo.title, torch.text.from_pretrained)(repo:model_folder(), options)
end

--- Creates a model of a repository.
---@param title string
---@param source string
---@param name? string
---@param a table  the options of hub.load
---@param given table<string, any>  the model's options
---@param list {n: integer}  arguments before the options
---@return any model
function M.load(title, source, name, a, given, list)
   local repo = Repository.open(title, source, a)
   local entries, others = entries_of(repo)
   local entry, found = choose(repo, entries, others, name)
   local model
   if entry.call then
      given.pretrained, given.progress = a.pretrained, a.progress
      list[list.n + 1] = given
      model = call_beside(repo.folder, entry.call, table.unpack(list, 1, list.n + 1))
      if model == nil then repo:fail("%s: %s returns no model", entry.path, found) end
      if not class.isinstance(model, torch.nn.Module) then return model end
   elseif list.n > 0 then
      repo:fail("expected at most 3 arguments, got %d; a model's arguments are options", 3 + list.n)
   elseif entry.architecture then
      model = from_data(repo, found, entry, given)
   else
      model = from_hugging_face(repo, name, given)
   end
   return a.device and model:to(a.device) or model
end

--- Downloads the files of a repository's models. Returns their folder, or the path of a packed
--- file.
---@param title string
---@param source string
---@param a table
---@return string path
function M.download(title, source, a)
   local repo = Repository.open(title, source, a)
   if repo.file then return repo.file end
   local first
   for _, name in ipairs(a.files or {}) do first = repo:path(name, true) end
   if first then return repo.folder or ("%s/snapshots/%s"):format(repo.base, repo.commit) end
   local entries, others = entries_of(repo)
   for name, entry in pairs(entries) do
      if entry.weights then state_of(repo, name, entry) end
   end
   if others then repo:model_folder() end
   for _, name in ipairs {"README.md", "tokenizer.json", "tokenizer_config.json",
      "special_tokens_map.json", "preprocessor_config.json"} do
      repo:path(name)
   end
   return repo.folder or ("%s/snapshots/%s"):format(repo.base, repo.commit)
end

return M
