-- replace.lua - replaces a file atomically: the old content stays at the path until all of the new
-- content is on the disk.

local torch = require "tlua"

-- Makes one attempt to replace the file. Returns an error message or nil, and whether the caller
-- should try again.
local function write_once(path, write)
   local file <close>, message = torch.io.replace(path)
   if not file then return message end
   local failure = write(file)
   if failure then return failure end
   local done, why, again = torch.io.commit(file)
   if not done then return why, again end
end

--- Calls write(file), and replaces the file at `path` by the content that it writes. write returns
--- nothing or an error message. After a failure the old file is still there, unchanged.
---@param path string
---@param write fun(file: file*): string?
---@return string? failure
return function(path, write)
   local failure, again = write_once(path, write)
   if again then failure = write_once(path, write) end
   return failure
end
