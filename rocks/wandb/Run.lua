-- Run.lua - a training run, recorded in the format that W&B's own library writes in offline mode.

local torch = require "tlua"
local args = require "tlua.args"
local io_folder = require "tlua.io.folder"
local class = require "tlua.class"
local json = require "tlua.utils.json"
local checked = require "tlua.checked"
local notice = require "tlua.utils.notice"
local datastore = require "tlua.wandb.datastore"
local protobuf = require "tlua.utils.protobuf"
local system = require "tlua.wandb.system"
local read_file = require "tlua.utils.read_file"
local values = require "tlua.wandb.values"
local Artifact = require "tlua.wandb.Artifact"

local field = datastore.field

---     local wandb = torch.utils.wandb
---     local options = {dir = "/tmp", config = {lr = 0.1}}
---     local run <close> = wandb.init(options)
---     run:log {loss = 0.5}
---     run:log {loss = 0.25}
---     print(run.step, run.summary.loss, run.config.lr)
---     --> 2	0.25	0.1
---@class utils.wandb.Run
---@field id string  the run's id
---@field project string  the project's name
---@field name string  the name that user interfaces show
---@field dir string  the folder that has the run's files
---@field step integer  the number of the next row, from 0
---@field resumed boolean  whether the run continues a run of an earlier process
---@field config table<string, any>  assigning a field records it
---@field summary table<string, any>  the last value of each name; assigning a field records it
local Run = class.class("utils.wandb.Run")

-- Maps the fields of the message Record in wandb_internal.proto to their numbers, in the order of
-- that file.
local RECORD <const> = {num = 1, history = 2, summary = 3, config = 5, files = 6, stats = 7,
   artifact = 8, run = 17, exit = 18, header = 21, environment = 26}
local VALUE <const> = 16 -- the number of the field value_json in the message of an item

local function timestamp(seconds)
   local whole = math.floor(seconds)
   return field(1, whole) .. field(2, math.floor((seconds - whole) * 1e9))
end

-- Disk --------------------------------------------------------------------------------------------

-- Stops recording after a disk error, which must not end the training.
local function give_up(self, message)
   if not self.failed then
      notice("wandb: %s: %s; no further values are recorded", self.path, message)
   end
   self.failed = true
end

-- Appends records to the file and flushes it. A record is given as {kind, message}.
local function append(self, records)
   if self.failed or not self.file then return end
   local parts, at = {}, self.at
   for i, record in ipairs(records) do
      self.num = self.num + 1
      local data = field(RECORD.num, self.num) .. field(RECORD[record[1]], record[2])
      parts[i] = datastore.encode(at, data)
      at = at + #parts[i]
   end
   local ok, message = self.file:write(table.concat(parts))
   if ok then ok, message = self.file:flush() end
   if not ok then return give_up(self, message) end
   self.at = at
end

function Run:_write_file(path, contents)
   local full = self.dir .. "/" .. path
   if self.failed or not self.file then return end
   local made, message = torch.io.make_folder(full:match "^(.*)/")
   message = not made and message or require "tlua.io.replace"(full, function(file)
      return select(2, file:write(contents))
   end)
   if message then return give_up(self, message) end
   append(self, {{"files", field(1, field(1, path))}})
end

-- Messages ----------------------------------------------------------------------------------------

-- Encodes a table of values by name as a list of items in the field `number` of a message. Each
-- item has the fields key (1), nested_key (2) and value_json (16).
local function items(number, data, nested)
   local names, parts = {}, {}
   for name in pairs(data) do names[#names + 1] = name end
   table.sort(names)
   for _, name in ipairs(names) do
      for _, leaf in ipairs(nested and values.leaves(name, data[name])
            or {{path = {name}, json = values.encode(data[name])}}) do
         local item = ""
         for _, part in ipairs(leaf.path) do item = item .. field(nested and 2 or 1, part) end
         parts[#parts + 1] = field(number, item .. field(VALUE, leaf.json))
      end
   end
   return table.concat(parts)
end

local function stats(self, now)
   local figures = self.sample()
   append(self, {{"stats", field(2, timestamp(now)) .. items(3, figures)}})
   self.sampled = now
end

local function summary_of(row) return {"summary", items(1, row, true)} end

-- Records the values of the current step as one row of the run's history.
local function commit(self)
   local row = self.row
   if not row then return end
   self.row = nil
   local now = torch.io.time()
   row._timestamp, row._runtime = now, now - self.start + self.before
   row._step = self.step
   append(self, {{"history", items(1, row, true) .. field(2, field(1, self.step))},
      summary_of(row)})
   self.step = self.step + 1
   if self.interval > 0 and now - self.sampled >= self.interval then stats(self, now) end
end

-- Returns a table with the content `data`. An assignment to one of its fields is recorded as a
-- change of the run's `kind`, "config" or "summary".
local function recorder(self, kind, data)
   local title = "utils.wandb.Run." .. kind
   local function set(name, value)
      if type(name) ~= "string" or name == "" or not utf8.len(name) then
         args.refuse(title, "key", "a name in UTF-8", name)
      end
      if self.status ~= "running" then torch.raise(title .. ": the run has ended") end
      local plain = value ~= nil and values.convert(title, name, value, self) or json.null
      data[name] = value
      append(self, {{kind, items(1, {[name] = plain}, kind == "summary")}})
   end
   return setmetatable({}, {
      __index = data,
      __newindex = function(_, name, value) set(name, value) end,
      __pairs = function() return next, data end,
      __name = "wandb." .. kind,
   }), set
end

-- Beginning ---------------------------------------------------------------------------------------

local not_finite <const> = {NaN = 0 / 0, Infinity = math.huge, ["-Infinity"] = -math.huge}

-- Decodes a value from JSON. Returns nil for null.
local function decode(word)
   local value = not_finite[word]
   if value == nil and word then value = json.decode(word) end
   if value ~= json.null then return value end
end

-- Copies the project, the name and similar fields of a run record to `about`, and its settings to
-- `config`.
local function take_settings(about, config, fields)
   for number, name in pairs {[2] = "entity", [3] = "project", [6] = "group", [7] = "job_type",
         [8] = "name", [9] = "notes"} do
      about[name] = fields[number] and fields[number][1] or about[name]
   end
   about.tags = fields[10] or about.tags
   local update = fields[4] and protobuf.fields(fields[4][1])
   for _, item in ipairs(update and update[1] or {}) do
      local parts = protobuf.fields(item)
      local name = parts and parts[1] and parts[1][1]
      if name and name ~= "_wandb" then config[name] = decode(parts[VALUE] and parts[VALUE][1]) end
   end
end

-- Continues the file of an earlier process: reads the complete records up to the run's exit record,
-- and truncates the file after the last of these records. Returns the run's fields and its config.
local function take_over(self)
   local about, config = {}, {}
   local text, message = read_file(self.path)
   local records = text
   if text then records, message = datastore.decode(text) end
   if not records then torch.raise(("wandb.init: %s: %s"):format(self.path, message)) end
   local last = #datastore.head
   for _, record in ipairs(records) do
      local fields = protobuf.fields(record.data)
      if not fields then
         torch.raise(("wandb.init: %s: the record before byte %d is damaged"):format(self.path,
            record.last))
      end
      if fields[RECORD.exit] then break end
      last, self.num = record.last, fields[RECORD.num] and fields[RECORD.num][1] or self.num + 1
      local run = fields[RECORD.run] and protobuf.fields(fields[RECORD.run][1])
      if run then take_settings(about, config, run) end
      local setting = fields[RECORD.config] and fields[RECORD.config][1]
      if setting then take_settings(about, config, {[4] = {setting}}) end
      local history = fields[RECORD.history] and protobuf.fields(fields[RECORD.history][1])
      for _, item in ipairs(history and history[1] or {}) do
         local parts = protobuf.fields(item)
         local value = decode(parts and parts[VALUE] and parts[VALUE][1])
         local name = parts and parts[2] and #parts[2] == 1 and parts[2][1]
         if name == "_step" then self.step = math.tointeger(value) + 1 end
         if name == "_runtime" then self.before = value end
         if name and name:sub(1, 1) ~= "_" then self.latest[name] = value end
      end
   end
   if last < #text then
      local failure = require "tlua.io.replace"(self.path, function(file)
         return select(2, file:write(text:sub(1, last)))
      end)
      if failure then torch.raise(("wandb.init: %s: %s"):format(self.path, failure)) end
   end
   self.at = last
   return about, config
end

-- Opens the file and locks it. Raises an error if another process has the lock.
local function open(self, mode)
   local file, message = io.open(self.path, mode)
   if not file then torch.raise(("wandb.init: %s"):format(message)) end
   if not torch.io._hold(file, self.path) then
      torch.raise(("wandb.init: %s: another process writes this run"):format(self.path))
   end
   return file
end

local function os_name()
   local file <close> = io.open "/proc/sys/kernel/ostype"
   return file and file:read "l" or package.config:sub(1, 1) == "\\" and "Windows" or "unknown"
end

local function run_record(self, about)
   local config = {_wandb = json.decode "{}"}
   for name, value in pairs(about.config) do
      config[name] = values.convert("wandb.init", "config." .. name, value, self)
   end
   local tags = ""
   for _, tag in ipairs(about.tags or {}) do tags = tags .. field(10, tag) end
   return field(1, self.id) .. field(2, about.entity) .. field(3, self.project)
      .. field(4, items(1, config)) .. field(6, about.group) .. field(7, about.job_type)
      .. field(8, self.name) .. field(9, about.notes) .. tags .. field(13, about.host)
      .. field(14, self.resumed and self.step or nil) .. field(17, timestamp(self.start))
      .. field(18, self.resumed or nil)
end

---@param about table  the arguments that wandb.init has checked
function Run:__init(about)
   if type(about) ~= "table" or type(about.folder) ~= "string" then
      args.refuse("utils.wandb.Run", "about", "a call of wandb.init, which makes runs", about)
   end
   self.id = about.id
   self.folder, self.dir = about.folder, about.folder .. "/files"
   self.path = ("%s/run-%s.wandb"):format(about.folder, about.id)
   self.status, self.resumed, self.interval = "running", about.resumed, about.interval
   self.step, self.num, self.before, self.latest, self.start = 0, 0, 0, {}, torch.io.time()
   self.sample, self.sampled, self.at = system.sampler(), self.start, #datastore.head
   local config, resumed = {}, about.resumed and not about.disabled
   -- These checks raise errors for wrong values before the run begins.
   for name, value in pairs(about.config) do
      values.convert("wandb.init", "config." .. name, value, self)
   end
   local made, message = true, nil
   if not about.disabled then made, message = torch.io.make_folder(self.dir) end
   if not made then torch.raise(("wandb.init: %s: %s"):format(self.dir, message)) end
   if resumed then
      -- the lock ensures that no other process writes while the file is replaced
      open(self, "ab"):close()
      local earlier
      earlier, config = take_over(self)
      for name, value in pairs(earlier) do
         if about[name] == nil then about[name] = value end
      end
   end
   for name, value in pairs(about.config) do config[name] = value end
   about.config = config
   self.entity = about.entity
   self.project, self.name = about.project or "uncategorized", about.name or "run-" .. about.id
   self.config, self.set_config = recorder(self, "config", config)
   self.summary, self.set_summary = recorder(self, "summary", self.latest)
   if about.disabled then return end
   self.file = open(self, about.resumed and "ab" or "wb")
   if not about.resumed then
      local ok, why = self.file:write(datastore.head)
      if not ok then return give_up(self, why) end
   end
   local header = field(1, field(1, "tlua") .. field(2, "0.70.0"))
   append(self, {{"header", header}, {"run", run_record(self, about)}, {"environment",
      field(1, os_name()) .. field(3, timestamp(self.start)) .. field(6, about.program)
      .. field(11, about.folder) .. field(12, about.host) .. field(14, "tlua")}})
   if self.interval > 0 then stats(self, self.start) end
end

-- Recording ---------------------------------------------------------------------------------------

local function check_running(self, title)
   if self.status ~= "running" then torch.raise(title .. ": the run has ended") end
end

--- Records a row of values. A value is a number, a text, a boolean, a tensor, a Histogram, an
--- Image, a Table, or a table of such values. With `step`, calls with the same step fill one row,
--- which is recorded when a call has a later step. A call with an earlier step is ignored, with a
--- warning.
---@param data table<string, any>
---@param options? {step: integer, commit: boolean}  step: the row's number, by default the next
--- one; commit: whether the row is complete; by default true if `step` is not given, else false
function Run:log(data, step, is_complete)
   local title = "utils.wandb.Run.log"
   check_running(self, title)
   if step and step < self.step then
      notice("wandb: step %d is before the current step %d; its values are dropped", step,
         self.step)
      return
   end
   -- All values are converted before the earlier row is recorded and the first value is stored. So
   -- after an error the run is as it was before the call. `target` gives the files of images and
   -- tables the number of the new row.
   local row = {}
   local target = {step = step or self.step,
      _write_file = function(_, ...) return self:_write_file(...) end}
   for name, value in pairs(data) do
      if type(name) ~= "string" or name == "" or name:find "^_" or not utf8.len(name) then
         args.refuse(title, "data", type(name) == "string" and not utf8.len(name)
            and "names in UTF-8" or "names that do not begin with _", name)
      end
      row[name] = values.convert(title, name, value, target)
   end
   if step and step > self.step then
      commit(self)
      self.step = step
   end
   self.row = self.row or {}
   for name, value in pairs(row) do
      self.row[name], self.latest[name] = value, data[name]
   end
   if is_complete == nil then is_complete = step == nil end
   if is_complete then commit(self) end
end

checked.methods(Run, "log(data: table, step: count?, commit: boolean?)")

--- Records an artifact. Its files are copied to the run's folder, and `wandb sync` uploads them. A
--- path to a file or folder becomes an artifact of that file or folder.
---@param artifact_or_path utils.wandb.Artifact|string
---@param options? {name: string, type: string, aliases: string[]}  name, type: for an artifact
--- made from a path, by default "run-<id>-<file>" and "unspecified". aliases: {"latest"} by default
---@return utils.wandb.Artifact
function Run:log_artifact(artifact_or_path, name, kind, aliases)
   local title, artifact = "utils.wandb.Run.log_artifact", artifact_or_path
   check_running(self, title)
   if type(artifact) == "string" then
      local path = artifact
      artifact = Artifact(name or ("run-%s-%s"):format(self.id, path:gsub("/+$", ""):match "[^/]+$"
         or "files"), kind or "unspecified")
      if io_folder.list(path) then artifact:add_dir(path) else artifact:add_file(path) end
   elseif not class.isinstance(artifact, Artifact) then
      args.refuse(title, "artifact_or_path", "a wandb.Artifact, or the path of a file or a folder",
         artifact)
   elseif name or kind then
      torch.raise(title .. ": name, type: expected a path with them, got an artifact")
   elseif artifact.logged then
      torch.raise(title .. ": the artifact was logged already")
   end
   for i, alias in ipairs(aliases or {}) do
      if type(alias) ~= "string" or alias == "" or alias:find "[/:]" then
         args.refuse(title, ("aliases[%d]"):format(i), 'a name without "/" and ":"', alias)
      end
   end
   artifact.logged = true
   if not self.file or self.failed then return artifact end
   local folder = io_folder.absolute(self.folder) or self.folder
   local record, message = artifact:_record(self, ("%s/artifacts/%d-%s"):format(folder,
      self.num, artifact.name), aliases or {"latest"})
   if record then append(self, {{"artifact", record}}) else give_up(self, message) end
   return artifact
end

checked.methods(Run, "log_artifact(artifact_or_path: any, name: string?, type: string?, "
   .. "aliases: table?)")

--- Raises an error, because artifacts are on W&B's server and runs of this package are offline.
---@param artifact_or_name any
function Run:use_artifact(artifact_or_name) -- luacheck: no unused args
   torch.raise("utils.wandb.Run.use_artifact: an offline run cannot fetch an artifact; fetch it by "
      .. "`wandb artifact get`, and read its files")
end

--- Ends the run. If `finish` is not called, W&B shows the run as crashed, and `wandb.init {id =
--- ..., resume = true}` can continue it.
---@param exit_code? integer  0 by default
function Run:finish(exit_code)
   if self.status ~= "running" then return end
   commit(self)
   local now = torch.io.time()
   if self.interval > 0 and self.file then stats(self, now) end
   append(self, {{"exit", field(1, exit_code) .. field(2, math.floor(now - self.start
      + self.before))}})
   self.status = "finished"
   if self.file then self.file:close() end
   self.file = nil
end

checked.methods(Run, "finish(exit_code: count = 0)")

function Run:__tostring()
   return ("wandb.Run(%s/%s, %s, step %d)"):format(self.project, self.id, self.status, self.step)
end

Run.__close = function(self, problem) self:finish(problem ~= nil and 1 or 0) end

return Run
