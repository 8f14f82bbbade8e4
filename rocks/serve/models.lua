-- models.lua - the models of a server. Loads and retires versions of models while the server runs.
-- Each version has a queue and one or more threads, each with its own interpreter (worker.lua).
-- When a new version is loaded, it gets all new requests; the older version answers the requests in
-- its queue and ends.

local torch = require "tlua"
local class = require "tlua.class"
local errors = require "tlua.serve.errors"
local json = require "tlua.utils.json"
local repository = require "tlua.serve.repository"

local Models = class.class("serve.Models")

---@param http table
---@param server table  the server in C
---@param settings table  path, options (defaults of models), body, log (a function of text)
function Models:__init(http, server, settings)
   self.http, self.server, self.settings = http, server, settings
   -- Maps the name of each model to {name, options, versions = {[number] = version}, unloaded}.
   self.by_name = {}
   self.retiring = {}
end

local function log(self, format, ...) self.settings.log(format:format(...)) end

-- Routes ------------------------------------------------------------------------------------------

local function path_of(name, number)
   return ("/v2/models/%s%s/infer"):format(name, number and "/versions/" .. number or "")
end

--- Returns the ready version of a model that has the given number. Without a number, returns the
--- ready version with the highest number. Returns nil if there is none.
---@param name string
---@param number? integer
---@return table? version
function Models:find(name, number)
   local model, best = self.by_name[name], nil
   for n, version in pairs(model and model.versions or {}) do
      if version.state == "READY" and (number or n) == n and (not best or n > best.number) then
         best = version
      end
   end
   return best
end

-- Sets the server's routes so that requests for a model reach its ready versions.
local function set_routes(self, name)
   local best = self:find(name)
   local function route(path, version)
      local queue = version and version.kind ~= "language" and version.queue or nil
      self.server:route("POST", path, queue)
   end
   route(path_of(name), best)
   local model = self.by_name[name]
   for number, version in pairs(model and model.versions or {}) do
      route(path_of(name, number), version.state == "READY" and version or nil)
   end
end

-- Loading -----------------------------------------------------------------------------------------

-- Programs are mapped into memory. Overwriting a served file would therefore change its answers or
-- crash the process, so files of up to this many bytes are copied before they are mapped.
local copy_most <const> = 1 << 30
-- A version that fails to load is tried again after at most this many seconds.
local longest_pause <const> = 60

local function drop_copy(version)
   if version.copy then os.remove(version.copy) end
   version.copy = nil
end

-- Starts to load a version. If an earlier attempt to load the same version has failed, `before` is
-- this attempt; otherwise it is nil.
local function start(self, model, found, before)
   local options = model.options
   local version = {
      name = model.name, number = found.number, kind = found.kind, path = found.path,
      size = found.size, state = "LOADING", options = options, waiting = {}, described = 0,
      since = torch.io.clock(), attempts = 1,
   }
   if before and before.size == found.size then
      version.attempts, version.known, version.reason = before.attempts + 1, before.reason,
         before.reason
   end
   if found.kind == "program" and found.size <= copy_most then version.copy = os.tmpname() end
   version.queue = self.server:queue(("%s/%d"):format(model.name, found.number), options.queue,
      options.timeout)
   local spec = {
      server = self.server:id(), queue = version.queue, name = model.name,
      version = found.number, path = found.path, kind = found.kind, body_most = self.settings.body,
      copy = version.copy, options = {},
   }
   for name, value in pairs(options) do spec.options[name] = value or nil end
   version.pool = torch.workers.start("serve", options.instances, "tlua.serve.worker", spec)
   version.pool:send(0, 3, "copy")
   return version
end

local function answer_all(version, status, body)
   for _, request in ipairs(version.waiting) do
      request:reply(status, "application/json", body)
   end
   version.waiting = {}
end

local function end_version(self, version)
   version.pool:stop()
   version.pool = nil
   drop_copy(version)
   self.server:free_queue(version.queue)
end

-- Lets a version answer the requests in its queue, and then ends it.
local function retire(self, version)
   self.server:route("POST", path_of(version.name, version.number), nil)
   self.server:close_queue(version.queue)
   if version.state == "READY" then
      version.state = "UNLOADING"
      self.retiring[#self.retiring + 1] = version
   elseif version.pool then
      end_version(self, version)
   end
   answer_all(version, 400, '{"error":"the model was unloaded"}')
end

local function fail(self, version, message)
   version.state, version.reason = "UNAVAILABLE", errors.text(message):match "^[^\n]*"
   if version.reason ~= version.known then
      log(self, "model %s version %d: %s", version.name, version.number, version.reason)
   end
   version.retry = torch.io.clock() + math.min(longest_pause, 2 ^ (version.attempts - 1))
   self.server:close_queue(version.queue)
   end_version(self, version)
   answer_all(version, 400, json.encode {error = version.reason})
end

local function retire_others(self, model, wanted)
   for number, version in pairs(model.versions) do
      if not wanted[number] then
         model.versions[number] = nil
         retire(self, version)
      end
   end
end

-- Routes requests to a version that has been loaded, and retires the versions that it replaces.
-- `about` is the description of the model.
local function make_ready(self, version, about)
   version.state, version.about, version.reason = "READY", about, nil
   drop_copy(version) -- the file may be removed, since its pages stay mapped
   for i = 0, version.options.instances - 1 do version.pool:send(i, 2, "serve") end
   local model = self.by_name[version.name]
   local old = version.replaces
   version.replaces = nil
   model.versions[version.number] = version
   set_routes(self, version.name)
   if old then retire(self, old) end
   -- The old version had the same path. Retiring it has removed the route, so the route is set
   -- again.
   set_routes(self, version.name)
   retire_others(self, model, model.wanted)
   log(self, "model %s version %d is ready after %.3f s", version.name, version.number,
      torch.io.clock() - version.since)
   answer_all(version, 200, "{}")
end

-- Handles the results of the jobs that run in the threads of a version.
local function listen(self, version)
   while version.pool do
      local worker, job, ok, result = version.pool:take(1e-6)
      if worker == nil then return end
      if not ok then
         if version.state == "LOADING" then
            fail(self, version, result)
         else -- the job of this thread has ended with an error, so it is started again
            log(self, "model %s version %d: a thread has failed: %s", version.name, version.number,
               result)
            version.pool:send(worker, 2, "serve")
         end
      elseif job == 3 and version.state == "LOADING" then
         if not result and version.kind ~= "script" then
            log(self, "model %s version %d: it is not copied, so its file must not change",
               version.name, version.number)
         end
         for i = 0, version.options.instances - 1 do
            version.pool:send(i, 1, "load", version.copy and result)
         end
      elseif job == 1 and version.state == "LOADING" then
         version.described = version.described + 1
         if version.described == version.options.instances then
            make_ready(self, version, result)
         end
      elseif job == 2 then
         version.ended = (version.ended or 0) + 1
         if version.ended == version.options.instances then
            end_version(self, version)
            log(self, "model %s version %d has ended", version.name, version.number)
            return
         end
      end
   end
end

-- Loads the new versions of a model. A version that could not be loaded is tried again when the
-- size of its file has changed. It is also tried again after a pause, because a file may have its
-- final size before all of it has been copied.
local function update(self, name, found)
   local model = self.by_name[name]
   if not model then
      model = {name = name, versions = {}}
      self.by_name[name] = model
   end
   if found.message ~= model.message and found.message then
      log(self, "model %s: %s", name, found.message)
   end
   model.message = found.message
   if found.message then return end
   model.options, model.wanted = found.options, {}
   local loading = false
   for _, version in ipairs(found.versions) do
      model.wanted[version.number] = true
      local old = model.versions[version.number]
      if not old or old.state == "UNAVAILABLE"
         and (old.size ~= version.size or torch.io.clock() >= old.retry) then
         model.versions[version.number] = start(self, model, version, old)
         old = model.versions[version.number]
      end
      loading = loading or old.state ~= "READY"
   end
   -- If a version is loading, the older versions are not retired here, but by make_ready when the
   -- version is ready.
   if not loading then
      local before = next(model.versions)
      retire_others(self, model, model.wanted)
      if before then set_routes(self, name) end
   end
end

--- Reads the folder of models. Loads new models and versions, and unloads those whose files are
--- gone.
---@return boolean? fine
---@return string? message
function Models:scan()
   local found, message = repository.scan(self.settings.path, self.settings.options)
   if not found then return nil, message end
   for name, model in pairs(self.by_name) do
      if not found[name] and not model.unloaded then self:unload(name, true) end
   end
   for name, entry in pairs(found) do
      local model = self.by_name[name]
      if not (model and model.unloaded) then update(self, name, entry) end
   end
   return true
end

--- Loads a model, even if it is loaded already. Answers the request when loading has ended.
---@param name string
---@param request table
---@return boolean? found
function Models:load(name, request)
   local found = repository.scan(self.settings.path, self.settings.options)
   local entry = found and found[name]
   if not entry then return nil end
   local model = self.by_name[name] or {name = name, versions = {}}
   self.by_name[name] = model
   model.unloaded, model.message = nil, entry.message
   if entry.message then
      request:reply(400, "application/json",
         json.encode {error = entry.message})
      return true
   end
   model.options, model.wanted = entry.options, {}
   for i, version in ipairs(entry.versions) do
      model.wanted[version.number] = true
      local old = model.versions[version.number]
      local next_one = old and old.successor
      if next_one and next_one.state == "LOADING" then old = next_one end
      if not (old and old.state == "LOADING") then
         local new = start(self, model, version)
         if old and old.state == "READY" then
            new.replaces = old -- the old version answers requests until the new version is ready
            old.successor = new
         else
            model.versions[version.number] = new
         end
         old = new
      end
      if i == #entry.versions then table.insert(old.waiting, request) end
   end
   return true
end

--- Retires all versions of a model.
---@param name string
---@param forget? boolean  true if the model's files are gone, so that the server forgets the model
---@return boolean? found
function Models:unload(name, forget)
   local model = self.by_name[name]
   if not model then return nil end
   local versions = model.versions
   model.versions, model.unloaded = {}, true
   self.server:route("POST", path_of(name), nil)
   for _, version in pairs(versions) do
      if version.successor then retire(self, version.successor) end
      retire(self, version)
   end
   if forget then self.by_name[name] = nil end
   return true
end

--- Handles the results of the jobs of all threads; the server's main loop calls this often.
function Models:listen()
   for _, model in pairs(self.by_name) do
      local list = {}
      for _, version in pairs(model.versions) do list[#list + 1] = version end
      for _, version in ipairs(list) do
         listen(self, version)
         local new = version.successor
         if new then
            listen(self, new)
            if new.state ~= "LOADING" then version.successor = nil end
         end
      end
   end
   for i = #self.retiring, 1, -1 do
      listen(self, self.retiring[i])
      if not self.retiring[i].pool then table.remove(self.retiring, i) end
   end
end

--- Returns the versions of all models, sorted by name and number.
---@return table[]
function Models:list()
   local list = {}
   for _, model in pairs(self.by_name) do
      for _, version in pairs(model.versions) do list[#list + 1] = version end
   end
   table.sort(list, function(a, b)
      if a.name ~= b.name then return a.name < b.name end
      return a.number < b.number
   end)
   return list
end

--- Returns whether each model has a ready version.
---@return boolean
function Models:ready()
   for name, model in pairs(self.by_name) do
      if not model.unloaded and not self:find(name) then return false end
   end
   return true
end

--- Ends the threads of all models.
function Models:stop()
   for _, version in ipairs(self:list()) do
      self.server:close_queue(version.queue)
      if version.successor and version.successor.pool then
         version.successor.pool:stop()
         drop_copy(version.successor)
      end
      if version.pool then version.pool:stop() end
      drop_copy(version)
   end
   for _, version in ipairs(self.retiring) do
      if version.pool then version.pool:stop() end
   end
end

return Models
