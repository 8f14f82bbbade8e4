-- files.lua - MLflow's file store: a folder that MLflow's server and user interface read.
--
--    mlruns/<experiment>/meta.yaml
--    mlruns/<experiment>/<run>/meta.yaml, params/<key>, tags/<key>, artifacts/...
--    mlruns/<experiment>/<run>/metrics/<key>      a line "timestamp value step" for each point
--
-- The format was derived from the files that MLflow's module mlflow/store/tracking/file_store.py
-- writes.

local torch = require "tlua"
local folder = require "tlua.io.folder"

local Files = {}
Files.__index = Files

local statuses <const> = {RUNNING = 1, SCHEDULED = 2, FINISHED = 3, FAILED = 4, KILLED = 5}

-- Makes a folder and returns its absolute path.
local function make_folder(path)
   local full, message = torch.io.make_folder(path)
   return full or error(("%s: %s"):format(path, message), 0)
end

local function write(path, contents, mode)
   local file, message = io.open(path, mode or "wb")
   local ok = file
   if file then ok, message = file:write(contents) end
   if file then
      local closed, problem = file:close()
      if ok then ok, message = closed, problem end
   end
   if not ok then
      message = message or "the file was not written"
      error(message:find(path, 1, true) and message or ("%s: %s"):format(path, message), 0)
   end
end

-- Returns a text as a YAML string in single quotes, within which only the quote needs an escape.
local function yaml(text) return "'" .. text:gsub("'", "''"):gsub("[\r\n]", " ") .. "'" end

-- Formats fields as YAML, sorted by name.
local function meta(fields)
   local keys, lines = {}, {}
   for key in pairs(fields) do keys[#keys + 1] = key end
   table.sort(keys)
   for i, key in ipairs(keys) do lines[i] = ("%s: %s\n"):format(key, tostring(fields[key])) end
   return table.concat(lines)
end

-- Returns n random bytes from the system. Drawing from torch's generator would change the random
-- numbers of the training.
local function random_bytes(n)
   local file = io.open("/dev/urandom", "rb")
   local bytes = file and file:read(n)
   if file then file:close() end
   if bytes then return bytes end
   local list = {}
   for i = 1, n do list[i] = string.char(math.random(0, 255)) end
   return table.concat(list)
end

local function hex(n) return (random_bytes(n):gsub(".", function(c)
   return ("%02x"):format(c:byte())
end)) end

local function named(path)
   local file = io.open(path .. "/meta.yaml", "rb")
   local text = file and file:read "a"
   if file then file:close() end
   local name = text and ("\n" .. text):match "\nname: ([^\n]*)"
   if name and name:find "^'" then name = name:sub(2, -2):gsub("''", "'") end
   return name
end

-- Returns the number of the experiment with the given name. If it does not exist, it is created.
function Files:experiment(name, time)
   for _, id in ipairs(folder.list(self.root) or {}) do
      if named(self.root .. "/" .. id) == name then return id end
   end
   local id = name == "Default" and "0" or ("1%017d"):format(
      ("<I7"):unpack(random_bytes(7)) % 100000000000000000)
   local path = self.root .. "/" .. id
   make_folder(path)
   write(path .. "/meta.yaml", meta {artifact_location = yaml("file://" .. path), name = yaml(name),
      creation_time = time, last_update_time = time, experiment_id = yaml(id),
      lifecycle_stage = "active"})
   return id
end

local function write_meta(run, status, end_time)
   local about = run.about
   write(run.folder .. "/meta.yaml", meta {artifact_uri = yaml("file://" .. run.folder
      .. "/artifacts"), end_time = end_time or "null", entry_point_name = "''",
      experiment_id = yaml(run.experiment_id), lifecycle_stage = "active", run_id = run.run_id,
      run_name = yaml(about.name), run_uuid = run.run_id, source_name = "''", source_type = 4,
      source_version = "''", start_time = about.start_time, status = statuses[status],
      tags = "[]", user_id = yaml(about.user)})
end

--- Creates a run. `about` has the names, tags and times of the new run.
function Files:begin(about)
   self.root = make_folder(self.root)
   local id = self:experiment(about.experiment, about.start_time)
   local run = {about = about, experiment_id = id, run_id = hex(16)}
   run.folder = ("%s/%s/%s"):format(self.root, id, run.run_id)
   for _, name in ipairs {"metrics", "params", "tags", "artifacts"} do
      make_folder(run.folder .. "/" .. name)
   end
   self.run = run
   write_meta(run, "RUNNING")
   local tags = {["mlflow.runName"] = about.name, ["mlflow.user"] = about.user}
   for key, value in pairs(about.tags) do tags[key] = value end
   for key, value in pairs(tags) do write(run.folder .. "/tags/" .. key, value) end
   run.artifact_uri = "file://" .. run.folder .. "/artifacts"
   return run
end

-- Returns the path of the file for a parameter, tag or metric. If its name contains slashes, the
-- folders of the path are created.
function Files:place(kind, key)
   local path = ("%s/%s/%s"):format(self.run.folder, kind, key)
   if key:find "/" then make_folder(path:match "^(.*)/") end
   return path
end

--- Stores parameters, tags and metrics of a run. Raises an error, and stores nothing, if a
--- parameter has another value already.
function Files:log(_, entries)
   for _, e in ipairs(entries.params or {}) do
      local file <close> = io.open(("%s/params/%s"):format(self.run.folder, e.key), "rb")
      local old = file and file:read "a"
      if old and old ~= e.value then
         error({refused = ("%s: the parameter has the value %q already, which cannot be changed to "
            .. "%q"):format(e.key, old, e.value)}, 0)
      end
   end
   for _, e in ipairs(entries.params or {}) do write(self:place("params", e.key), e.value) end
   for _, e in ipairs(entries.tags or {}) do write(self:place("tags", e.key), e.value) end
   for _, e in ipairs(entries.metrics or {}) do
      local value = e.value ~= e.value and "nan" or e.value == math.huge and "inf"
         or e.value == -math.huge and "-inf" or ("%.17g"):format(e.value)
      write(self:place("metrics", e.key), ("%d %s %d\n"):format(e.timestamp, value, e.step), "ab")
   end
end

function Files:put(_, path, contents) write(self:place("artifacts", path), contents) end

function Files:finish(_, status, time) write_meta(self.run, status, time) end

---@param root string
return function(root)
   if root == "" then torch.raise "mlflow: expected a folder, got none" end
   return setmetatable({root = root}, Files)
end
