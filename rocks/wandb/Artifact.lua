-- Artifact.lua - a named collection of files that a run has made, such as a model.

local torch = require "tlua"
local args = require "tlua.args"
local checked = require "tlua.checked"
local class = require "tlua.class"
local io_folder = require "tlua.io.folder"
local json = require "tlua.utils.json"
local md5 = require "tlua.wandb.md5"
local datastore = require "tlua.wandb.datastore"

local field = datastore.field

local NAME <const> = "utils.wandb.Artifact"

--- A named collection of files, which Run:log_artifact records with a run.
---
---     local wandb = torch.utils.wandb
---     local artifact = wandb.Artifact("digits", "model")
---     torch.save({w = torch.ones(2)}, "/tmp/digits.safetensors")
---     artifact:add_file "/tmp/digits.safetensors"
---     print(artifact.entries[1].path, #artifact:digest())
---     --> digits.safetensors	32
---@class utils.wandb.Artifact
---@field name string  the name that versions share
---@field type string  the kind of artifact, such as "model" or "dataset"
---@field entries {path: string, source: string, digest: string, size: integer}[]  the files
---@overload fun(name: string, type: string, options?: table): utils.wandb.Artifact
local Artifact = class.class(NAME)

local take = args.signature [[wandb.Artifact(name: string, type: string, description: string?,
   metadata: table?)]]

---@param name string  letters, digits, "-", "_" and "."; at most 128 of them
---@param type string
---@param options? {description: string, metadata: table<string, any>}
function Artifact:__init(...)
   local a = take(...)
   if not a.name:find "^[%w._-]+$" or #a.name > 128 then
      args.refuse(NAME, "name", 'at most 128 letters, digits, "-", "_" and "."', a.name)
   elseif a.type == "" or not utf8.len(a.type) then
      args.refuse(NAME, "type", "a name in UTF-8", a.type)
   end
   for name, value in pairs(a) do self[name] = value end
   self.entries, self.places = {}, {}
   if a.metadata then
      local ok, text = pcall(json.encode, a.metadata)
      if not ok then args.refuse(NAME, "metadata", "values that JSON has", a.metadata) end
      self.metadata_text = text
   end
end

local DIGITS <const> = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"

local function base64(bytes)
   return (bytes:gsub("..?.?", function(part)
      local a, b, c = part:byte(1, 3)
      local n = a << 16 | (b or 0) << 8 | (c or 0)
      local text = ""
      for shift = 18, 0, -6 do
         local at = (n >> shift & 63) + 1
         text = text .. DIGITS:sub(at, at)
      end
      return text:sub(1, #part + 1) .. ("="):rep(3 - #part)
   end))
end

-- Returns an entry for the file `source`, or nil if the artifact already has this file. Raises an
-- error if the file cannot be added.
local function entry_of(self, title, source, path)
   if self.logged then torch.raise(title .. ": the artifact was logged already") end
   if path:find "^/" or path:find "%f[^/\0]%.%.%f[/\0]" or not utf8.len(path) then
      args.refuse(title, "name", "a relative path in UTF-8", path)
   end
   local sum, message = md5.of_file(source)
   if not sum then torch.raise(("%s: %s"):format(title, message)) end
   local file <close> = io.open(source, "rb")
   local entry = {path = path, source = source, digest = base64(sum),
      size = file and file:seek "end" or 0}
   local old = self.places[path]
   if old and old.digest ~= entry.digest then
      torch.raise(("%s: name: %s is in the artifact already, with other contents"):format(title,
         path))
   end
   return not old and entry or nil
end

local function add(self, entries)
   for _, entry in ipairs(entries) do
      self.places[entry.path] = entry
      table.insert(self.entries, entry)
   end
   table.sort(self.entries, function(a, b) return a.path < b.path end)
end

--- Adds a file.
---@param local_path string
---@param options? {name: string}  name: the path in the artifact; by default the file's own name
function Artifact:add_file(local_path, name)
   local title <const> = NAME .. ".add_file"
   if io_folder.list(local_path) then
      args.refuse(title, "local_path", "a file; add_dir adds a folder", local_path)
   end
   add(self, {entry_of(self, title, local_path, name or local_path:match "[^/]+$" or local_path)})
end

--- Adds all files of a folder and of the folders in it.
---@param local_path string
---@param options? {name: string}  name: the folder's path in the artifact; by default the files
--- are added without a folder
function Artifact:add_dir(local_path, name)
   local title <const> = NAME .. ".add_dir"
   local root = local_path:gsub("(.)/+$", "%1")
   if not io_folder.list(root) then args.refuse(title, "local_path", "a folder", local_path) end
   local entries = {}
   for _, path in ipairs(io_folder.files_below(root)) do
      entries[#entries + 1] = entry_of(self, title, path,
         (name and name .. "/" or "") .. path:sub(#root + 2))
   end
   add(self, entries)
end

checked.methods(Artifact, [[
   add_file(local_path: string, name: string?)
   add_dir(local_path: string, name: string?)]])

--- Returns the digest of the artifact's files. W&B compares digests to find out whether it already
--- has an artifact.
---@return string  32 hexadecimal digits
function Artifact:digest()
   local lines = {"wandb-artifact-manifest-v1\n"}
   for i, entry in ipairs(self.entries) do
      lines[i + 1] = ("%s:%s\n"):format(entry.path, entry.digest)
   end
   return (md5.of_text(table.concat(lines)):gsub(".", function(c)
      return ("%02x"):format(c:byte())
   end))
end

local LETTERS <const> = "0123456789abcdefghijklmnopqrstuvwxyz"

-- Returns a random name. It is not drawn from torch's generator, because this would change the
-- random numbers of the training.
local function random_id()
   local file <close> = io.open("/dev/urandom", "rb")
   local bytes = file and file:read(128)
   local list = {}
   for i = 1, 128 do
      local at = (bytes and bytes:byte(i) or math.random(0, 255)) % 36 + 1
      list[i] = LETTERS:sub(at, at)
   end
   return table.concat(list)
end

local function copy(from, to)
   local made, message = torch.io.make_folder(to:match "^(.*)/")
   if not made then return message end
   local source <close>, why = io.open(from, "rb")
   if not source then return why end
   return require "tlua.io.replace"(to, function(target)
      for piece in function() return source:read(1 << 20) end do
         local ok, problem = target:write(piece)
         if not ok then return problem end
      end
   end)
end

--- Copies the files into a folder. Returns the encoded message ArtifactRecord of
--- wandb_internal.proto.
---@param run utils.wandb.Run
---@param folder string
---@param aliases string[]
---@return string? record  nil if a file cannot be copied
---@return string? message
function Artifact:_record(run, folder, aliases)
   local contents = {}
   for i, entry in ipairs(self.entries) do
      local place = folder .. "/" .. entry.path
      local failure = copy(entry.source, place)
      if failure then return nil, failure end
      if base64(md5.of_file(place) or "") ~= entry.digest then
         return nil, entry.source .. ": the file has changed since it was added"
      end
      contents[i] = field(4, field(1, entry.path) .. field(2, entry.digest)
         .. field(4, entry.size > 0 and entry.size or nil) .. field(6, place))
   end
   local names = ""
   for _, alias in ipairs(aliases) do names = names .. field(11, alias) end
   local manifest = field(1, 1) .. field(2, "wandb-storage-policy-v1")
      .. field(3, field(1, "storageLayout") .. field(2, '"V2"')) .. table.concat(contents)
   return field(1, run.id) .. field(2, run.project) .. field(3, run.entity) .. field(4, self.type)
      .. field(5, self.name) .. field(6, self:digest()) .. field(7, self.description)
      .. field(8, self.metadata_text) .. field(9, true) .. names .. field(12, manifest)
      .. field(14, true) .. field(15, random_id()) .. field(16, random_id())
end

return Artifact
