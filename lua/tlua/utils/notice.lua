-- notice.lua - tells the user about a fault that must not end the program, such as a full disk to
-- which a training writes its records.

local torch = require "tlua"

--- Formats a message as string.format does. Passes it to the logger that the host has set by
--- tl_set_logger, or writes it to the standard error if there is no logger.
---@param format string
---@param ... any  the values of the format
return function(format, ...)
   local message = format:format(...)
   if not torch._log(message) and io then io.stderr:write(message, "\n") end
end
