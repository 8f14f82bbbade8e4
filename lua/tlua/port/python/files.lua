-- files.lua - implements Python's modules random and os.path.

local M = require "tlua.port.python.base"

function M.choice(list) return list[math.random(#list)] end
function M.uniform(a, b) return a + (b - a) * math.random() end
--- Implements random.randrange(a, b, step).
function M.randrange(a, b, step)
   if b == nil then a, b = 0, a end
   step = step or 1
   local count = (b - a + step - (step > 0 and 1 or -1)) // step
   return a + step * math.random(0, count - 1)
end

function M.shuffle(list)
   for i = #list, 2, -1 do
      local j = math.random(i)
      list[i], list[j] = list[j], list[i]
   end
end

function M.sample(list, n)
   local copy = M.list(list)
   M.shuffle(copy)
   return M.slice(copy, 1, n)
end

function M.exists(path)
   local good, _, code = os.rename(path, path)
   return good ~= nil or code == 13 -- error 13: the file exists, but access is denied
end

--- Makes a folder and its missing parents.
function M.makedirs(path)
   if M.exists(path) then return end
   local quoted = "'" .. path:gsub("'", "'\\''") .. "'"
   if not os.execute("mkdir -p " .. quoted) then error("makedirs: cannot make " .. path, 2) end
end

function M.basename(path) return path:match "[^/]*$" end
function M.dirname(path) return path:match "^(.*)/" or "" end

--- Returns the names in a folder, sorted.
function M.listdir(path)
   local pipe = assert(io.popen("ls -A '" .. (path or "."):gsub("'", "'\\''") .. "'"))
   local list = M.collect(pipe:lines())
   pipe:close()
   return list
end

function M.partial(fn, ...)
   local first = table.pack(...)
   return function(...)
      local more = table.pack(...)
      local all = table.move(first, 1, first.n, 1, {})
      table.move(more, 1, more.n, first.n + 1, all)
      return fn(table.unpack(all, 1, first.n + more.n))
   end
end

return M
