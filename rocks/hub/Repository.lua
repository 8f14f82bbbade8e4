-- Repository.lua - access to a model's files. They are in a folder, in one file, or in a repository
-- on a server with Hugging Face's or GitHub's URLs. A repository's files are downloaded into the
-- cache when they are needed.

local torch = require "tlua"
local args = require "tlua.args"
local class = require "tlua.class"
local folder = require "tlua.io.folder"
local http = require "tlua.utils.http"
local cache = require "tlua.hub.cache"
local download = require "tlua.hub.download"
local names = require "tlua.hub.names"

-- Maps each kind of server to a table. `url` is the form of a file's URL on this server. `prefix`
-- is the beginning of the names of its repositories' folders in the cache.
local sources <const> = {
   huggingface = {prefix = "models", endpoint = "https://huggingface.co", revision = "main",
      url = "%s/%s/%s/resolve/%s/%s"},
   github = {prefix = "github", endpoint = "https://raw.githubusercontent.com", revision = "HEAD",
      url = "%s/%s/%s/%s/%s"},
}

---@class hub.Repository
---@field title string  the function's name, for error messages
---@field shown string  the repository's name for messages
---@field is_named boolean  whether the user has named a local folder, whose code may run
---@field folder string?  the local folder with the files; nil if files are fetched
---@field file string?  the path of a packed file
local Repository = class.class("hub.Repository")

---@param title string
---@param a table  the options of hub.load
function Repository:__init(title, a)
   self.title, self.options = title, a
end

function Repository:fail(message, ...) torch.raise(("%s: " .. message):format(self.title, ...)) end

local function is_folder(path) return folder.list(path) ~= nil end

local function endpoint_of(self, source)
   local endpoint = self.options.endpoint
      or source.prefix == "models" and os.getenv "HF_ENDPOINT" or nil
   endpoint = endpoint and endpoint ~= "" and endpoint or source.endpoint
   local place, message = http.parse(endpoint)
   if not place then self:fail("endpoint: %s, got %q", message, endpoint) end
   return (place.server .. place.path):gsub("/+$", "")
end

local function read_text(path)
   local file <close> = io.open(path, "rb")
   return file and file:read "a"
end

-- Returns the names of the files that an index of shards lists. Returns nil if the file at `path`
-- is not an index of shards. If the index has a name that is not allowed, returns nil and this
-- name.
local function shards_of(path)
   local index = torch.utils.json.decode(read_text(path) or "")
   local map = type(index) == "table" and index.weight_map
   if type(map) ~= "table" then return nil end
   local list, seen = {}, {}
   for _, name in pairs(map) do
      if not names.file(name) then return nil, name end
      if not seen[name] then list[#list + 1], seen[name] = name, true end
   end
   table.sort(list)
   return list
end

-- Searches the cache of Hugging Face's library for the repository. Returns its folder there if this
-- folder has all files of a model, and otherwise nil.
local function others_snapshot(self)
   local base = ("%s/models--%s--%s"):format(cache.others(), self.owner, self.name)
   local commit = self.revision:find "^%x+$" and #self.revision == 40 and self.revision
      or cache.read_word(base .. "/refs/" .. self.revision)
   if not commit or not commit:find "^%x+$" then return nil end
   local path = base .. "/snapshots/" .. commit
   local function has(name) return download.exists(path .. "/" .. name) end
   if has "hub.json" then return path end
   if not has "config.json" then return nil end
   if has "model.safetensors" then return path end
   for _, name in ipairs(shards_of(path .. "/model.safetensors.index.json") or {false}) do
      if not name or not has(name) then return nil end
   end
   return path
end

local function open_remote(self, repo)
   local a = self.options
   local owner, name, revision = names.repository(repo)
   if not owner then
      args.refuse(self.title, "repo_or_dir",
         '"owner/name", "owner/name:revision", a folder, a file or a URL', repo)
   end
   local kind = a.source or "huggingface"
   local source = sources[kind]
   if a.revision and revision and a.revision ~= revision then
      self:fail("revision: %q is named as well as %q", revision, a.revision)
   end
   self.owner, self.name, self.source = owner, name, source
   self.revision = a.revision or revision or source.revision
   self.shown = ("%s/%s"):format(owner, name)
   if kind == "huggingface" and not a.force_reload then
      self.folder = others_snapshot(self)
      if self.folder then return self end
   end
   self.endpoint = endpoint_of(self, source)
   self.base = ("%s/%s--%s--%s"):format(cache.get_dir(), source.prefix, owner, name)
   local known = cache.read_word(self.base .. "/refs/" .. self.revision)
   if known and not names.file(known) or a.force_reload then known = nil end
   self.commit = self.revision:find("^" .. ("%x"):rep(40) .. "$") and self.revision or known
   self.headers = {}
   local token = a.token or kind == "huggingface" and os.getenv "HF_TOKEN" or nil
   if token and token ~= "" then self.headers.Authorization = "Bearer " .. token end
   return self
end

--- Downloads a file from a URL into the cache, unless the cache already has it. Returns the file's
--- path.
---@param url string
---@param a {file_name: string?, sum: string?, model_dir: string?}
---@return string path
function Repository:from_url(url, a)
   local place, message = http.parse(url)
   if not place then self:fail("url: %s, got %q", message, url) end
   local name = a.file_name or names.of_url(url)
   if not name then
      self:fail("url: expected a URL that ends with a file's name, or file_name; got %q", url)
   end
   local options = self.options
   local path = ("%s/%s"):format(a.model_dir or cache.get_dir() .. "/checkpoints", name)
   if download.exists(path) and not options.force_reload then
      self:check(path)
      local sum = a.sum and download.sha256(path)
      if sum and sum:sub(1, #a.sum) ~= a.sum then
         self:fail("%s: SHA-256: expected %s, got %s; force_reload = true fetches the file again",
            path, a.sum, sum:sub(1, #a.sum))
      end
      return path
   end
   if cache.is_offline(options.offline) then
      self:fail("%s is not in %s, and nothing is fetched offline", name, path:match "^(.*)/")
   end
   download.fetch {title = self.title, url = url, path = path, sum = a.sum, note = true,
      keep = not options.force_reload, timeout = options.timeout,
      progress = options.progress ~= false, max_bytes = options.max_bytes}
   return path
end

-- Raises an error because a checksum is given for several files.
local function refuse_sum(self)
   self:fail("sha256: expected a file or a URL as repo_or_dir, got %q", self.shown)
end

--- Opens a repository, given by its name, a folder or a file. The options are those of hub.load.
---@param title string  the function's name, for error messages
---@param repo string
---@param a table
---@return hub.Repository
function Repository.open(title, repo, a)
   local self = Repository(title, a)
   self.shown = repo
   if a.source and a.source ~= "local" and not sources[a.source] then
      args.refuse(title, "source", '"huggingface", "github" or "local"', a.source)
   end
   if a.revision and not names.revision(a.revision) then
      args.refuse(title, "revision", select(2, names.revision(a.revision)), a.revision)
   end
   if repo:find "%z" then args.refuse(title, "repo_or_dir", "a name without a zero byte", repo) end
   if repo:find "^%a+://" then
      self.file = self:from_url(repo, {sum = a.sha256})
      return self
   end
   if not a.source or a.source == "local" then
      if is_folder(repo) then
         if a.sha256 then refuse_sum(self) end
         self.folder, self.is_named = #repo > 1 and repo:gsub("/+$", "") or repo, true
         return self
      elseif download.exists(repo) then
         self.file = repo
         local sum = a.sha256 and download.sha256(repo)
         if sum and sum:sub(1, #a.sha256) ~= a.sha256 then
            self:fail("%s: SHA-256: expected %s, got %s", repo, a.sha256, sum:sub(1, #a.sha256))
         end
         return self
      elseif a.source == "local" or repo:find "^[/.~]" or repo:find "%.safetensors$" then
         self:fail("%s: there is no such folder or file", repo)
      end
   end
   if a.sha256 then refuse_sum(self) end
   return open_remote(self, repo)
end

--- Raises an error if a cached file does not match its checksum.
---@param path string
function Repository:check(path)
   if self.options.check_hash == false then return end
   local failure = download.check(path)
   if failure then
      self:fail("%s; the file is damaged: force_reload = true fetches it again", failure)
   end
end

-- Asks the server for the commit to which a file belongs, its size and its checksum. Returns nil if
-- the repository does not have the file.
local function ask(self, name)
   local is_commit = self.commit and self.commit:find("^" .. ("%x"):rep(40) .. "$")
   local at = is_commit and self.commit or self.revision
   local url = self.source.url:format(self.endpoint, self.owner, self.name,
      http.escape(at), http.escape(name, true))
   local ok, answer = pcall(http.open, "HEAD", url, {headers = self.headers, near = true,
      timeout = self.options.timeout})
   if not ok then
      self:fail("%s: %s", self.shown, answer)
   end
   getmetatable(answer).__close()
   local headers, status = answer.headers, answer.status
   local commit = headers["x-repo-commit"]
   if not self.commit and (status < 400 or status == 404) then
      if commit and not commit:find "^%x+$" then
         self:fail("%s: x-repo-commit: expected a commit, got %q", url, commit)
      end
      self.commit = commit or self.revision:gsub("/", "-")
      cache.write_word(("%s/refs/%s"):format(self.base, self.revision), self.commit)
   end
   local code = headers["x-error-code"]
   if status == 404 and (not code or code == "EntryNotFound") then return nil end
   if status >= 400 then
      local hint = status == 401 or status == 403
      local elsewhere = not self.options.source and (status == 401 or code == "RepoNotFound")
      self:fail("%s: %s: the server answers %d%s%s%s", self.shown, url, status,
         code and " (" .. code .. ")" or "", hint and "; a private or gated repository needs a "
         .. "token: the option token, or HF_TOKEN" or "",
         elsewhere and '; one of GitHub needs source = "github"' or "")
   end
   local sum = (headers["x-linked-etag"] or ""):match '^"?(%x+)"?$'
   return {url = url, sum = sum and #sum == 64 and sum:lower() or nil}
end

--- Returns the path of a file of the repository on this machine. The file is downloaded if
--- necessary. Returns nil if the repository does not have the file.
---@param name string
---@param required? boolean  whether a missing file raises an error
---@return string? path
function Repository:path(name, required)
   local function missing() self:fail("%s: there is no file %s", self.shown, name) end
   if self.folder then
      local path = self.folder .. "/" .. name
      if download.exists(path) then
         self:check(path)
         return path
      end
      return required and missing() or nil
   end
   self.asked = self.asked or {}
   local function place(part) return ("%s/%s/%s/%s"):format(self.base, part, self.commit, name) end
   if self.commit and not (self.options.force_reload and not self.asked[name]) then
      local path = place "snapshots"
      if download.exists(path) then
         self:check(path)
         return path
      elseif download.exists(place ".no_exist") then
         return required and missing() or nil
      end
   end
   if cache.is_offline(self.options.offline) then
      if not required and self.commit then return nil end
      self:fail("%s: %s is not in %s, and nothing is fetched offline", self.shown, name,
         cache.get_dir())
   end
   self.asked[name] = true
   local found = ask(self, name)
   if not found then
      cache.write_word(place ".no_exist", "")
      return required and missing() or nil
   end
   local path = place "snapshots"
   download.fetch {title = self.title, url = found.url, path = path, sum = found.sum, note = true,
      keep = not self.options.force_reload, headers = self.headers, timeout = self.options.timeout,
      progress = self.options.progress ~= false, max_bytes = self.options.max_bytes,
      label = self.shown .. "/" .. name}
   os.remove(place ".no_exist")
   return path
end

--- Returns whether the repository has a file, without downloading the file. If nothing may be
--- fetched, returns false.
---@param name string
---@return boolean
function Repository:has(name)
   if self.folder then return download.exists(self.folder .. "/" .. name) end
   return not cache.is_offline(self.options.offline) and ask(self, name) ~= nil
end

--- Downloads the files of a model in Hugging Face's layout. Returns the folder that contains them.
---@return string folder
function Repository:model_folder()
   self:path("config.json", true)
   self:path "generation_config.json"
   if not self:path "model.safetensors" then
      local index = self:path "model.safetensors.index.json"
      if not index then
         local old = self:has "pytorch_model.bin" and "; pytorch_model.bin is a pickle and is not "
            .. "loaded: save the model as safetensors" or ""
         self:fail("%s: there is neither model.safetensors nor model.safetensors.index.json%s",
            self.shown, old)
      end
      local shards, wrong = shards_of(index)
      if not shards then
         self:fail("%s: weight_map: expected names of files inside of the repository, got %s",
            index, args.describe(wrong))
      end
      for _, name in ipairs(shards) do self:path(name, true) end
   end
   return self.folder or ("%s/snapshots/%s"):format(self.base, self.commit)
end

return Repository
