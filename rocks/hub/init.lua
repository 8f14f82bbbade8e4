-- init.lua - torch.hub: downloads published models, and keeps them in a cache:
--
--    local model = torch.hub.load("owner/name", "digits")
--    local state = torch.hub.load_state_dict_from_url "https://host/weights.safetensors"
--
-- A repository has Hugging Face's layout (config.json, model.safetensors), or a file hub.json that
-- describes its models as data. No downloaded code is run: weights are safetensors files, and
-- models are created by our own classes and builders. The functions have the names of PyTorch's
-- torch.hub.

local torch = require "tlua"
local args = require "tlua.args"
local checked = require "tlua.checked"
local suggest = require "tlua.utils.suggest"
local cache = require "tlua.hub.cache"

local M = {}

-- These modules are loaded on first use, because get_dir and set_dir do not need them.
local function models() return require "tlua.hub.models" end
local function pack() return require "tlua.hub.pack" end
local function Repository() return require "tlua.hub.Repository" end

-- Folder ------------------------------------------------------------------------------------------

--- Returns the folder of the cache. It is the folder passed to `set_dir`, or else $TLUA_CACHE/hub,
--- $XDG_CACHE_HOME/tlua/hub or ~/.cache/tlua/hub.
---@return string
function M.get_dir() return cache.get_dir() end

checked.queries(M, "hub.", "get_dir")

local take_dir = args.signature "hub.set_dir(d: string)"

--- Sets the folder of the cache. The folder is created when it is first needed.
---
---     torch.hub.set_dir "/tmp/models"
---     print(torch.hub.get_dir())
---     --> /tmp/models
---@param d string
function M.set_dir(...)
   local d = take_dir(...).d
   if d == "" or d:find "%z" then args.refuse("hub.set_dir", "d", "a folder's path", d) end
   cache.set_dir(d)
end

-- Files -------------------------------------------------------------------------------------------

-- Checks the text that a user gives as the beginning of a checksum, and returns it in lower case.
-- Returns nil if none is given.
local function prefix_of(title, name, text)
   if text == nil then return nil end
   if #text < 6 or #text > 64 or text:find "%X" then
      args.refuse(title, name, "6 to 64 hexadecimal digits", text)
   end
   return text:lower()
end

local function check_timeout(title, seconds)
   if seconds and not (seconds > 0 and seconds < 1e6) then
      args.refuse(title, "timeout", "a positive number of seconds", seconds)
   end
end

local take_file = args.signature [[hub.download_url_to_file(url: string, dst: string,
   hash_prefix: string?, progress: boolean = true, timeout: number?, max_bytes: count?)]]

--- Downloads a file. After a broken connection, the missing bytes are requested again. While the
--- file is incomplete, its name is `dst` .. ".part"; a later call continues such a file. The file
--- appears at `dst` when it is complete.
---@param url string
---@param dst string  the file's path
---@param hash_prefix? string  the beginning of the SHA-256 checksum of the file
---@param options? {progress: boolean, timeout: number, max_bytes: integer}  progress: true, the
--- default, draws a bar on a terminal; timeout: the number of seconds without a byte after which an
--- attempt fails, 30 by default; max_bytes: a file that is larger is refused, by default 16 GiB if
--- the server does not tell the size
---@return string sha256  the file's checksum
function M.download_url_to_file(...)
   local title, a = "hub.download_url_to_file", take_file(...)
   local sum = prefix_of(title, "hash_prefix", a.hash_prefix)
   check_timeout(title, a.timeout)
   local place, message = require "tlua.utils.http".parse(a.url)
   if not place then torch.raise(("%s: url: %s, got %q"):format(title, message, a.url)) end
   if a.dst == "" or a.dst:find "%z" or a.dst:find "/$" then
      args.refuse(title, "dst", "a file's path", a.dst)
   end
   if require "tlua.io.folder".list(a.dst) then
      args.refuse(title, "dst", "a file's path, not a folder", a.dst)
   end
   if cache.is_offline() then
      torch.raise(title .. ": nothing is fetched offline (TLUA_OFFLINE or HF_HUB_OFFLINE is set)")
   end
   return require "tlua.hub.download".fetch {title = title, url = a.url, path = a.dst, sum = sum,
      progress = a.progress, timeout = a.timeout, max_bytes = a.max_bytes}
end

local take_state = args.signature [[hub.load_state_dict_from_url(url: string, model_dir: string?,
   map_location: any?, progress: boolean = true, check_hash: boolean = false, file_name: string?,
   weights_only: boolean = true, hash_prefix: string?, offline: boolean?, timeout: number?,
   force_reload: boolean = false, max_bytes: count?)]]

--- Downloads a safetensors file and returns its tensors by name. The file is kept in the cache, and
--- compared with its checksum each time it is used. Pickles are refused; if the name in the URL
--- ends with .pt, .pth or .bin, nothing is downloaded.
---@param url string
---@param model_dir? string  the folder that keeps the file; get_dir() .. "/checkpoints" by default
---@param options? {map_location: any, progress: boolean, check_hash: boolean, file_name: string,
---weights_only: boolean, hash_prefix: string, offline: boolean, timeout: number,
---force_reload: boolean, max_bytes: integer}  map_location: as in torch.load; check_hash: true
--- takes the beginning of the SHA-256 checksum from the URL, which must end with
--- name-<digits>.safetensors; file_name: the file's name in the cache; weights_only: always true;
--- hash_prefix: the checksum's beginning; offline: true fetches nothing; timeout: seconds without a
--- byte; force_reload: true fetches the file even if the cache has it; max_bytes: as in
--- download_url_to_file
---@return table<string, Tensor>
function M.load_state_dict_from_url(...)
   local title, a = "hub.load_state_dict_from_url", take_state(...)
   if not a.weights_only then
      args.refuse(title, "weights_only", "true: loading runs no code of a file", false)
   end
   check_timeout(title, a.timeout)
   if a.model_dir == "" or a.model_dir and a.model_dir:find "%z" then
      args.refuse(title, "model_dir", "a folder's path", a.model_dir)
   end
   local place = a.map_location ~= nil
      and require "tlua.io.place".of(title, a.map_location)
   local names = require "tlua.hub.names"
   local extension = (names.of_url(a.url) or ""):lower():match "%.%w+$"
   if extension == ".pt" or extension == ".pth" or extension == ".bin" then
      torch.raise(("%s: url: expected a safetensors file, got %q; a pickle is not loaded, so save "
         .. "the weights as safetensors"):format(title, a.url))
   end
   if a.file_name and (not names.file(a.file_name) or a.file_name:find "/") then
      args.refuse(title, "file_name", "a file's name without a folder", a.file_name)
   end
   local sum = prefix_of(title, "hash_prefix", a.hash_prefix)
   if a.check_hash and not sum then
      sum = (names.of_url(a.url) or ""):match "%-(%x%x%x%x%x%x+)%.[^.]*$"
      if not sum then
         torch.raise(("%s: check_hash: expected a URL whose file is named "
            .. "name-<SHA-256 digits>.safetensors, got %q"):format(title, a.url))
      end
      sum = sum:lower()
   end
   local repo = Repository()(title, {offline = a.offline, timeout = a.timeout,
      progress = a.progress, force_reload = a.force_reload, max_bytes = a.max_bytes})
   local path = repo:from_url(a.url, {sum = sum,
      file_name = a.file_name, model_dir = a.model_dir and a.model_dir:gsub("(.)/+$", "%1")})
   local state, message = require "tlua.hub.weights".read(path)
   if not state then torch.raise(("%s: %s"):format(title, message)) end
   if not place then return state end
   for name, tensor in pairs(state) do state[name] = place(tensor, "cpu") end
   return state
end

-- Models ------------------------------------------------------------------------------------------

-- Maps each option of `load` that belongs to the hub to its type. All other options belong to the
-- model.
local own <const> = {source = "string", revision = "string", trust = "boolean", offline = "boolean",
   force_reload = "boolean", check_hash = "boolean", pretrained = "boolean", progress = "boolean",
   device = "device", timeout = "number", endpoint = "string", token = "string", sha256 = "string",
   max_bytes = "number"}

-- Checks the options that belong to the hub.
local function check_own(title, options)
   for key, value in pairs(options) do
      local fits, expected = args.fits_default(value, nil, own[key])
      if not fits then args.refuse(title, key, expected, value) end
   end
   check_timeout(title, options.timeout)
   local most = options.max_bytes
   if most and (math.type(most) ~= "integer" or most < 0) then
      args.refuse(title, "max_bytes", "an integer of at least 0", most)
   end
   if options.device then
      local ok, message = pcall(torch.empty, {0}, {device = options.device})
      if not ok then
         torch.raise(("%s: %s"):format(title, (message:gsub("^[^\n]-:%d+: ", "")
            :gsub("^empty: ", ""))))
      end
   end
   if options.token and options.token:find "[%c]" then
      torch.raise(title .. ": token: expected a token without control characters")
   end
   options.sha256 = prefix_of(title, "sha256", options.sha256)
   return options
end

-- Splits options into two tables: those that belong to the hub and those that belong to the model.
local function split(title, options)
   local hub, model = {}, {}
   if options == nil then return hub, model end
   if type(options) ~= "table" or getmetatable(options) then
      args.refuse(title, "options", "a table", options)
   end
   for key, value in pairs(options) do
      if type(key) ~= "string" then args.refuse(title, "options", "names of options", key) end
      (own[key] and hub or model)[key] = value
   end
   return check_own(title, hub), model
end

-- Returns the results of a call, or raises the call's error again. If the model does not know an
-- option whose name resembles an option of the hub, the message also names the hub's option.
local function explain(title, given, ok, ...)
   if ok then return ... end
   local message = ...
   if type(message) ~= "string" then error(message, 0) end
   for key in pairs(given) do
      local hint = suggest.hint(key, own)
      if hint ~= "" and message:find("unknown option " .. key, 1, true) then
         message = ("%s; %s has the options %s"):format(message, title, "of the hub, too" .. hint)
      end
   end
   error(message, 0)
end

--- Creates a model. `repo_or_dir` is
---
--- * "owner/name" or "owner/name:revision": a repository with config.json and model.safetensors, as
---   Hugging Face's library saves them, or with hub.json; `model` is then a class, such as
---   "BertModel", or a model that hub.json describes;
--- * a folder with the same files;
--- * a file that `hub.pack` has made, or its URL.
---
--- `model` may be omitted if there is only one model. Options that the hub does not know, such as
--- `num_classes`, are passed to the model. The model is in evaluation mode, unless `pretrained` is
--- false. Files are kept in the cache and reused, unless `force_reload` is true. Code is run only
--- with `trust = true`, and only from the file hubconf.lua in a folder on this machine. This file
--- returns a table of functions, and may require modules of its folder. A function gets the
--- arguments of `load` that follow `model`. Its last argument is a table of the model's options,
--- and of `pretrained` and `progress` if they are given.
---
---     local hub, weights = torch.hub, torch.nn.Linear(1, 1)
---     local line = {
---        name = "line", weights = weights, architecture = {"nn.Linear", 1, 1},
---     }
---     local path = hub.pack(line, "/tmp/line.safetensors")
---     print(torch.type(hub.load(path)), hub.list(path)[1])
---     --> nn.Linear	line
---@param repo_or_dir string
---@param model? string
---@param options? table  the model's options, and: source ("huggingface", "github" or "local"; by
--- default a folder or file of this name if there is one, or else "huggingface"), revision (a
--- branch, tag or commit), trust, offline (true fetches nothing; default $TLUA_OFFLINE or
--- $HF_HUB_OFFLINE), force_reload, check_hash (false does not compare files of the cache with their
--- checksums), pretrained (false: random weights), progress, device, timeout (seconds without a
--- byte), endpoint (the server, default $HF_ENDPOINT), token (default $HF_TOKEN), sha256 (the
--- checksum, or at least its first 6 digits, of the file at `repo_or_dir`, which must be a file or
--- a URL), max_bytes (the largest size of a file)
---@param ... any  with `trust`, the arguments before the table of options are the function's
---@return any model
function M.load(repo_or_dir, model, options, ...)
   local title = "hub.load"
   if type(repo_or_dir) ~= "string" then
      args.refuse(title, "repo_or_dir", '"owner/name", a folder, a file or a URL', repo_or_dir)
   end
   if options == nil and type(model) == "table" then model, options = nil, model end
   if model ~= nil and type(model) ~= "string" then
      args.refuse(title, "model", "a model's name", model)
   end
   local list = table.pack(options, ...)
   while list.n > 0 and list[list.n] == nil do list.n = list.n - 1 end
   local n, last = list.n, list[list.n]
   options = type(last) == "table" and not getmetatable(last) and last or nil
   if options then list.n = n - 1 end
   if n == 1 and not options then args.refuse(title, "options", "a table", last) end
   if list.n > 0 and not (options and options.trust) then
      torch.raise(("%s: expected at most 3 arguments, got %d; a model's arguments are options")
         :format(title, 2 + n))
   end
   local hub, given = split(title, options)
   return explain(title, given, pcall(models().load, title, repo_or_dir, model, hub, given, list))
end

local shared <const> = [[source: string?, revision: string?, trust: boolean?, offline: boolean?,
   force_reload: boolean?, check_hash: boolean?, progress: boolean?, timeout: number?,
   endpoint: string?, token: string?, max_bytes: count?]]

-- Checks the options that `list`, `help` and `download` share, and returns them.
local function hub_options(title, a)
   local options = {}
   for key in pairs(own) do options[key] = a[key] end
   return check_own(title, options)
end

local take_list = args.signature(("hub.list(repo_or_dir: string, %s)"):format(shared))

--- Returns the names of the models of a repository, folder or file, in alphabetical order.
---@param repo_or_dir string  as in `load`
---@param options? {source: string, revision: string, trust: boolean, offline: boolean,
---force_reload: boolean, check_hash: boolean, progress: boolean, timeout: number, endpoint: string,
---token: string, max_bytes: integer}  as in `load`
---@return string[]
function M.list(...)
   local a = take_list(...)
   return models().list("hub.list", a.repo_or_dir, hub_options("hub.list", a))
end

local take_help = args.signature(("hub.help(repo_or_dir: string, model: string?, %s)")
   :format(shared))

--- Returns a text that describes a model: its summary, architecture, licence and card.
---@param repo_or_dir string  as in `load`
---@param model? string  may be left out if there is only one
---@param options? {source: string, revision: string, trust: boolean, offline: boolean,
---force_reload: boolean, check_hash: boolean, progress: boolean, timeout: number, endpoint: string,
---token: string, max_bytes: integer}  as in `load`
---@return string
function M.help(...)
   local a = take_help(...)
   return models().help("hub.help", a.repo_or_dir, a.model, hub_options("hub.help", a))
end

local take_download = args.signature(("hub.download(repo_or_dir: string, files: table?, %s)")
   :format(shared))

--- Downloads a repository's files, including the card and the tokenizer's files, without creating a
--- model. Returns the folder that contains the files, which torch.text.Tokenizer and others can
--- read. Weights for which hub.json has a URL are stored in get_dir() .. "/checkpoints" instead. If
--- `repo_or_dir` is a packed file or its URL, the file's path is returned.
---@param repo_or_dir string  as in `load`
---@param options? {files: string[], source: string, revision: string, trust: boolean,
---offline: boolean, force_reload: boolean, check_hash: boolean, progress: boolean, timeout: number,
---endpoint: string, token: string, max_bytes: integer}  files: fetches only these; the others as in
--- `load`
---@return string path
function M.download(...)
   local title, a = "hub.download", take_download(...)
   local options = hub_options(title, a)
   if a.files then
      local n = 0
      for key in pairs(a.files) do n = math.type(key) == "integer" and math.max(n, key) or n end
      if n < 1 then args.refuse(title, "files", "a list of at least one name", a.files) end
      for i = 1, n do
         local fits, expected = require "tlua.hub.names".file(a.files[i])
         if not fits then
            args.refuse(title, ("files[%d]"):format(i), expected, a.files[i])
         end
      end
   end
   options.files = a.files
   return models().download(title, a.repo_or_dir, options)
end

local take_pack = args.signature "hub.pack(model: table, path: string?)"

--- Writes a model as one safetensors file that `load` can read. The file has the weights, the
--- architecture, the licence, the card and checksums.
---
---     local nn, hub = torch.nn, torch.hub
---     local net = nn.Sequential(nn.Linear(4, 2), nn.Tanh())
---     local path = hub.pack({
---        name = "small", weights = net, license = "MIT", summary = "an example",
---        architecture = {"nn.Sequential", {"nn.Linear", 4, 2}, {"nn.Tanh"}},
---     }, "/tmp/small.safetensors")
---     local x = torch.ones(1, 4)
---     print(hub.load(path, "small")(x):equal(net(x)))
---     --> true
---@param model {name: string, architecture: string|table, options: table, weights: any,
---license: string, summary: string, card: string, config: table}  architecture: a name such as
--- "vision.models.resnet18", which gets `options`, or a list of a name and its arguments;
--- weights: a module, a state dict or the path of a safetensors file; card: a text in Markdown;
--- config: further data
---@param path? string  ends with .safetensors; the model's name by default
---@return string path
function M.pack(...)
   local a = take_pack(...)
   return pack()("hub.pack", a.model, a.path)
end

return M
