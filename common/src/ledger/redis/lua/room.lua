-- What the server says of its memory (INFO), and its version where it tells scripts that. Empty where the user may not ask.
local said = redis.pcall('INFO', 'memory')
return { type(said) == 'string' and said or '', redis.REDIS_VERSION or '' }
