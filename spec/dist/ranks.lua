-- ranks.lua - runs Lua code on several ranks, as `tlua run` does it.

local shell = require "spec.support.shell"

local M = {}

-- What every rank begins with. `check` compares, so that a message tells rank and values.
local head = [[
torch.set_num_threads(1)
local dist = torch.distributed
local function list(x) return torch.is_tensor(x) and x:tolist() or x end
local function show(x)
   if type(x) ~= "table" then return tostring(x) end
   local parts = {}
   for i, y in ipairs(x) do parts[i] = show(y) end
   return "{" .. table.concat(parts, ", ") .. "}"
end
function check(expected, actual, what)
   expected, actual = show(list(expected)), show(list(actual))
   if expected ~= actual then
      error(("%s: expected %s, got %s"):format(what or "check", expected, actual), 2)
   end
end
function refused(text, fn, ...)
   local ok, message = pcall(fn, ...)
   if ok then error("no error: expected " .. text, 2) end
   if not message:find(text, 1, true) then
      error(("expected %s, got %s"):format(text, message), 2)
   end
end
]]

local joined = [[
dist.init_process_group {timeout = TIMEOUT}
local rank, size = dist.get_rank(), dist.get_world_size()
]]

--- Runs code on n ranks that have joined, or, with `alone`, that have not.
---@param n integer
---@param code string  with `dist`, `rank` and `size`, `check` and `refused`
---@param options? {alone: boolean, env: string, launch: string, timeout: number}
---@return string output  of all, with the rank in front
---@return integer status
function M.run(n, code, options)
   options = options or {}
   return shell.with_folder(function(folder)
      local text = head .. (options.alone and "" or joined:gsub("TIMEOUT", options.timeout or 30)) ..
         "FOLDER = " .. ("%q"):format(folder) .. "\n"
      -- the code's first line is number 1
      shell.write(folder .. "/head.lua", (text:gsub("\nlocal ", "\n")))
      shell.write(folder .. "/ranks.lua", ("dofile %q; "):format(folder .. "/head.lua") .. code)
      return shell.run(("cd %s && %s %s run -n %d %s ranks.lua"):format(folder, options.env or "",
         shell.quote(M.tlua), n, options.launch or ""))
   end)
end

M.tlua = shell.ok("realpath " .. shell.quote(shell.tlua)):match "[^\n]+"

--- The same for code that must end well.
---@return string output
function M.ok(n, code, options)
   local output, status = M.run(n, code, options)
   if status ~= 0 then error(("status %d\n%s"):format(status, output), 2) end
   return output
end

return M
