-- init.lua - torch.utils.wandb: records runs for Weights & Biases, with the names of its library:
--
--    local wandb = torch.utils.wandb
--    local run <close> = wandb.init {project = "digits", config = {lr = 0.1}}
--    run:log {loss = loss:item()}
--
-- Runs are written to the folder `wandb` in the format that W&B's library writes offline;
-- `wandb sync` uploads them. The file is flushed after each row, so a run that is killed loses no
-- complete row.

local torch = require "tlua"
local args = require "tlua.args"
local io_folder = require "tlua.io.folder"
local Run = require "tlua.wandb.Run"
local values = require "tlua.wandb.values"

local M = {Run = Run, Histogram = values.Histogram, Image = values.Image, Table = values.Table,
   Artifact = require "tlua.wandb.Artifact"}

local current -- the run that the latest call of init has created

local function variable(name)
   local value = os.getenv(name)
   return value ~= "" and value or nil
end

-- Returns 8 random letters and digits. They come from the operating system. If they were drawn from
-- torch's generator, recording with W&B would change the random numbers of the training.
local function new_id()
   local letters <const> = "0123456789abcdefghijklmnopqrstuvwxyz"
   local file <close> = io.open("/dev/urandom", "rb")
   local bytes = file and file:read(8)
   local parts = {}
   for i = 1, 8 do
      local n = bytes and bytes:byte(i) or math.random(0, 255)
      parts[i] = letters:sub(n % 36 + 1, n % 36 + 1)
   end
   return table.concat(parts)
end

-- Returns the newest folder of the run with the given id. Returns nil if there is no such run.
local function folder_of(base, id)
   local found
   for _, name in ipairs(io_folder.list(base) or {}) do
      if name:match "^offline%-run%-%d+_%d+%-(.+)$" == id then found = base .. "/" .. name end
   end
   return found
end

local take = args.signature [[wandb.init(project: string?, name: string?, config: table?,
   entity: string?, group: string?, job_type: string?, notes: string?, tags: table?, dir: string?,
   id: string?, resume: boolean|string = false, mode: string?, interval: number = 15)]]

local function check(title, a)
   for key in pairs(a.config or {}) do
      if type(key) ~= "string" then args.refuse(title, "config", "values by name", key) end
   end
   for _, tag in ipairs(a.tags or {}) do
      if type(tag) ~= "string" then args.refuse(title, "tags", "texts", tag) end
   end
   if a.id and (not a.id:find "^[%w_-]+$" or #a.id > 128) then
      args.refuse(title, "id", "letters, digits, _ and -", a.id)
   end
   if a.mode ~= "offline" and a.mode ~= "disabled" then
      torch.raise(('%s: mode: expected "offline" or "disabled", got %s; runs are written offline, '
         .. "and `wandb sync` sends them"):format(title, args.describe(a.mode)))
   end
   local modes = {[true] = "allow", [false] = "never", allow = "allow", must = "must",
      never = "never"}
   local resume = modes[a.resume]
   if not resume then
      args.refuse(title, "resume", 'a boolean, "allow", "must" or "never"', a.resume)
   elseif resume ~= "never" and not a.id then
      torch.raise(title .. ": resume: expected the run's id as well, got none")
   elseif not (a.interval >= 0 and a.interval < 1e9) then
      args.refuse(title, "interval", "seconds, or 0 for no figures", a.interval)
   end
   return resume
end

--- Begins a run. The caller must end the run, with `<close>` or `finish`.
---@param options? {project: string, name: string, config: table<string, any>, entity: string,
---group: string, job_type: string, notes: string, tags: string[], dir: string, id: string,
---resume: boolean|string, mode: string, interval: number}  project: by default $WANDB_PROJECT or
--- "uncategorized"; dir: the folder in which the folder `wandb` is created, by default
--- $WANDB_DIR or the current folder; id: the run's id, by default a random one; resume: true or
--- "allow" continues the run with this id, with its config and names, if it exists, and "must"
--- raises an error if it does not exist; mode: "offline", the default, or "disabled", which records
--- nothing; interval: the least number of seconds between measurements of the system, 0 for none
---@return utils.wandb.Run
function M.init(...)
   local title, a = "wandb.init", take(...)
   a.mode = a.mode or variable "WANDB_MODE" or "offline"
   local resume = check(title, a)
   local base = (a.dir or variable "WANDB_DIR" or "."):gsub("(.)/+$", "%1") .. "/wandb"
   local id = a.id or new_id()
   local folder = folder_of(base, id)
   if resume == "must" and not folder then
      torch.raise(("%s: resume: %s has no run with the id %s"):format(title, base, id))
   elseif resume == "never" and folder then
      torch.raise(("%s: id: this run exists in %s; resume = true continues it"):format(title,
         folder))
   end
   current = Run {
      id = id, project = a.project or variable "WANDB_PROJECT", name = a.name,
      config = a.config or {}, entity = a.entity, group = a.group, job_type = a.job_type,
      notes = a.notes, tags = a.tags, resumed = folder ~= nil,
      folder = folder or ("%s/offline-run-%s-%s"):format(base, os.date "%Y%m%d_%H%M%S", id),
      disabled = a.mode == "disabled", interval = a.interval, host = variable "HOSTNAME",
      program = type(arg) == "table" and arg[0] or nil,
   }
   return current
end

local function running(title)
   if not current or current.status ~= "running" then
      torch.raise(title .. ": there is no run; call wandb.init first")
   end
   return current
end

local take_log = args.signature "wandb.log(data: table, step: count?, commit: boolean?)"

--- Records a row of the latest run; see Run:log.
---@param data table<string, any>
---@param options? {step: integer, commit: boolean}
function M.log(...)
   local a = take_log(...)
   running "wandb.log":log(a.data, {step = a.step, commit = a.commit})
end

local take_finish = args.signature "wandb.finish(exit_code: count = 0)"

--- Ends the latest run.
---@param exit_code? integer  0 by default
function M.finish(...)
   local a = take_finish(...)
   if current then current:finish(a.exit_code) end
end

return M
