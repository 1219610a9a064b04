"""`speech-gateway bench`: sends speech requests as many people would, and says what they heard."""
