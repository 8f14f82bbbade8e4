-- replace.lua - writes a file in one go: what was at the path is there as it was until all of the
-- new content is on the disk.

local torch = require "tlua"

-- Returns what went wrong, and whether to try once more.
local function write_once(path, write)
   local file <close>, message = torch.io.replace(path)
   if not file then return message end
   local failure = write(file)
   if failure then return failure end
   local done, why, again = torch.io.commit(file)
   if not done then return why, again end
end

--- Lets write(file), which returns nothing or what went wrong, make the new content of the file at
--- `path`. After a failure the old file is there as it was.
---@param path string
---@param write fun(file: file*): string?
---@return string? failure
return function(path, write)
   local failure, again = write_once(path, write)
   if again then failure = write_once(path, write) end
   return failure
end
